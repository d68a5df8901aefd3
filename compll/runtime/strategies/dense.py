"""Gradients that are not compressed: flattened in a given order, scaled as plain DDP scales, all-reduced."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import torch

from compll.runtime.codec import Part
from compll.runtime.collectives import Handle
from compll.runtime.gradients import GradientSpec
from compll.runtime.pieces import Piece
from compll.runtime.strategies.base import Context, StateSpec, Unit
from compll.runtime.tasks import Graph, Kind, chain, compute, transfer


class Dense:
    """Means of gradients: one all-reduce for those of a dtype, laid out in `named_parameters()` order.

    `dtype` is what travels (None: the gradient's own); f32 gradients that travel as bf16 are rounded before the sum.
    """

    def __init__(self, context: Context, *, dtype: torch.dtype | None = None) -> None:
        self._context, self._dtype = context, dtype

    def pieces(self, spec: GradientSpec, parts: int) -> Sequence[Piece]:
        return [Piece(spec=spec, start=0, shape=spec.shape)]

    def states(self, piece: Piece) -> Iterable[StateSpec]:
        return ()

    def open(self, unit: Unit) -> Graph:
        exchange = _Exchange(self._context, _by_dtype(unit.parts), self._dtype)
        return chain(transfer(exchange.reduce), compute(Kind.DECODE, exchange.store))


class _Exchange:
    def __init__(self, context: Context, groups: Sequence[Sequence[Part]], dtype: torch.dtype | None) -> None:
        self._context, self._groups, self._dtype = context, groups, dtype
        self._flat: list[torch.Tensor] = []

    def reduce(self, done: Callable[[], None]) -> Handle:
        """Scales before the sum, as DDP does."""
        for group in self._groups:
            flat = torch.cat([part.tensor.reshape(-1) for part in group])
            self._flat.append(flat.mul_(1.0 / self._context.collectives.world_size).to(self._dtype or flat.dtype))
        return self._context.collectives.all_reduce(self._flat, done)

    def store(self) -> None:
        for group, flat in zip(self._groups, self._flat, strict=True):
            pieces = torch.split(flat, [part.tensor.numel() for part in group])
            for part, piece in zip(group, pieces, strict=True):
                part.tensor.copy_(piece.view(part.tensor.shape))
        codec = self._context.codec
        if codec.states.rollback:
            codec.finite &= bool(torch.stack([flat.isfinite().all() for flat in self._flat]).all().tolist())


def _by_dtype(parts: Iterable[Part]) -> list[list[Part]]:
    groups: dict[torch.dtype, list[Part]] = {}
    for part in sorted(parts, key=lambda p: p.piece.spec.index):
        groups.setdefault(part.tensor.dtype, []).append(part)
    return list(groups.values())
