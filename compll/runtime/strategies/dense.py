"""Gradients that are not compressed: flattened in a given order, scaled as plain DDP scales, all-reduced."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import torch

from compll.runtime.collectives import Collectives, Handle
from compll.runtime.gradients import Slice


class DenseExchange:
    """The means of gradients, one all-reduce for each group of equal dtype; the bits depend on the groups only."""

    def __init__(self, collectives: Collectives, groups: Sequence[Sequence[Slice]]) -> None:
        self._collectives = collectives
        self._groups = [group for group in groups if group]
        self._flat: list[torch.Tensor] = []
        self._handle: Handle | None = None

    @property
    def bytes_sent(self) -> int:
        return sum(t.numel() * t.element_size() for t in self._flat)

    def start(self, done: Callable[[], None]) -> None:
        """Flatten, scale before the sum as DDP does, start the reductions."""
        for group in self._groups:
            flat = torch.cat([s.tensor.reshape(-1) for s in group])
            self._flat.append(flat.mul_(1.0 / self._collectives.world_size))
        self._handle = self._collectives.all_reduce(self._flat, done)

    def store(self, *, check: bool) -> bool:
        """Write the means back. With `check`, whether all of them are finite; else True."""
        if self._handle is not None:
            self._handle.wait()
        for group, flat in zip(self._groups, self._flat, strict=True):
            parts = torch.split(flat, [s.tensor.numel() for s in group])
            for piece, part in zip(group, parts, strict=True):
                piece.tensor.copy_(part.view(piece.tensor.shape))
        return not check or all(bool(flat.isfinite().all()) for flat in self._flat)


def by_dtype(slices: Iterable[Slice]) -> list[list[Slice]]:
    """The slices in `named_parameters` order, one group for each dtype: a layout that does not know buckets."""
    groups: dict[torch.dtype, list[Slice]] = {}
    for piece in sorted(slices, key=lambda s: s.spec.index):
        groups.setdefault(piece.tensor.dtype, []).append(piece)
    return list(groups.values())
