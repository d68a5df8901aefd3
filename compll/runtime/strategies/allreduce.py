"""Payloads that add (trait linear): all sections of one dtype in one all-reduce, then one decode.

The flags travel as three counts for each part in the f32 reduction: ranks that have it, ranks where it is finite, ranks
that encoded it without failure. f32 sums are divided afterwards; 16-bit sections before, so that large values do not
overflow in the sum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch

from compll.diagnostics import UnsupportedError
from compll.runtime.collectives import Handle
from compll.runtime.envelope import FINITE, HAS_GRADIENT, SOUND, Envelope
from compll.runtime.gradients import GradientSpec
from compll.runtime.pieces import Piece, cut
from compll.runtime.sections import typed_sections, why_not_added
from compll.runtime.strategies.base import Context, StateSpec, Unit
from compll.runtime.tasks import Graph, Kind, chain, compute, transfer

COUNTED = (HAS_GRADIENT, FINITE, SOUND)


class AllReduce:
    """The strategy for linear programs: its traffic does not grow with the number of ranks."""

    def __init__(self, context: Context) -> None:
        if problem := why_not_added(context.codec.own.first):
            raise UnsupportedError(
                f"strategy='allreduce' needs payloads that add, but {problem}; use strategy='allgather'"
            )
        self._context = context

    def pieces(self, spec: GradientSpec, parts: int) -> Sequence[Piece]:
        return cut(spec, parts, self._context.codec.own.first)

    def states(self, piece: Piece) -> Iterator[StateSpec]:
        yield StateSpec(name=piece.name, piece=piece, dtype=piece.dtype)

    def open(self, unit: Unit) -> Graph:
        exchange = _Exchange(self._context, unit)
        return chain(
            compute(Kind.ENCODE, exchange.encode), transfer(exchange.reduce), compute(Kind.DECODE, exchange.decode)
        )


class _Exchange:
    def __init__(self, context: Context, unit: Unit) -> None:
        self._codec, self._collectives, self._unit = context.codec, context.collectives, unit
        envelope = Envelope(unit.payload_sizes(context.codec.compressor))
        self._payloads = envelope.payloads(context.zeros(unit, "payloads", envelope.nbytes))
        self._counts = torch.zeros(len(unit.parts), len(COUNTED))
        self._sums: dict[torch.dtype, torch.Tensor] = {}

    def encode(self) -> None:
        flags = self._codec.encode(self._unit.parts, self._payloads)
        self._counts.copy_(torch.tensor([[float(bool(flag & bit)) for bit in COUNTED] for flag in flags]))

    def reduce(self, done: Callable[[], None]) -> Handle:
        parts = {torch.float32: [self._counts.to(self._payloads[0].device).view(-1)]}
        for dtype, section in self._sections():
            parts.setdefault(dtype, []).append(section)
        self._sums = {dtype: torch.cat(tensors) for dtype, tensors in parts.items()}
        for dtype, total in self._sums.items():
            if dtype != torch.float32:
                total.div_(self._collectives.world_size)
        return self._collectives.all_reduce(list(self._sums.values()), done)

    def decode(self) -> None:
        flags = [self._flags(counts) for counts in self._summed_counts().view_as(self._counts).tolist()]
        self._codec.deliver(self._unit.parts, flags, lambda: self._store(flags))

    def _summed_counts(self) -> torch.Tensor:
        return self._sums[torch.float32][: self._counts.numel()]

    def _flags(self, counts: Sequence[float]) -> int:
        have, finite, sound = counts
        everyone = self._collectives.world_size
        return (have > 0) * HAS_GRADIENT | (finite == everyone) * FINITE | (sound == everyone) * SOUND

    def _store(self, flags: Sequence[int]) -> None:
        self._store_sections()
        rows = [
            [self._codec.payload(part.piece, buffer, part.piece.dtype, rank=self._collectives.rank)]
            if flag & HAS_GRADIENT
            else [None]
            for part, buffer, flag in zip(self._unit.parts, self._payloads, flags, strict=True)
        ]
        self._codec.merge(rows, [part.tensor for part in self._unit.parts], mean=False)

    def _store_sections(self) -> None:
        ends = {dtype: 0 for dtype in self._sums}
        ends[torch.float32] = self._counts.numel()
        for dtype, section in self._sections():
            total = self._sums[dtype].narrow(0, ends[dtype], section.numel())
            ends[dtype] += section.numel()
            if dtype == torch.float32:
                torch.div(total, self._collectives.world_size, out=section)
            else:
                section.copy_(total)

    def _sections(self) -> Iterator[tuple[torch.dtype, torch.Tensor]]:
        for payload, part in zip(self._payloads, self._unit.parts, strict=True):
            for section in typed_sections(self._codec.compressor, part.piece.shape, part.piece.dtype, payload):
                yield section.dtype, section
