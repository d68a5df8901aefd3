"""Payloads that add (trait linear): every section is summed where it lies, then there is one payload to decode.

The flags travel as three counts for each part: ranks that have it, ranks where it is finite, ranks that encoded it
without failure. Sections are divided before the sum, so that large 16-bit values do not overflow in it. Each is reduced
by itself: in one message the order of a sum would depend on what else a bucket holds, and a resumed run would differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch

from compll.runtime.collectives import Handle
from compll.runtime.envelope import FINITE, HAS_GRADIENT, SOUND, Envelope, counted, votes
from compll.runtime.rounding import divide
from compll.runtime.sections import typed_sections
from compll.runtime.strategies.base import Context, Unit, Unshared
from compll.runtime.tasks import Graph, Kind, chain, compute, transfer

COUNTED = (HAS_GRADIENT, FINITE, SOUND)


class AllReduce(Unshared):
    """The strategy for programs whose payloads add: its traffic does not grow with the number of ranks."""

    def open(self, unit: Unit) -> Graph:
        exchange = _Exchange(self._context, unit)
        return chain(
            compute(Kind.ENCODE, exchange.encode), transfer(exchange.reduce), compute(Kind.DECODE, exchange.decode)
        )


class _Exchange:
    def __init__(self, context: Context, unit: Unit) -> None:
        self._codec, self._collectives, self._parts = context.codec, context.collectives, unit.parts
        envelope = Envelope(unit.payload_sizes(context.codec.compressor))
        self._payloads = envelope.payloads(context.zeros(unit, "payloads", envelope.nbytes))
        self._counts = torch.zeros(len(unit.parts), len(COUNTED), device=self._payloads[0].device)

    def encode(self) -> None:
        self._counts = votes(self._codec.encode(self._parts, self._payloads), COUNTED)

    def reduce(self, done: Callable[[], None]) -> Handle:
        sections = list(self._sections())
        divide(sections, [self._collectives.world_size] * len(sections))
        return self._collectives.all_reduce([self._counts, *sections], done)

    def decode(self) -> None:
        everyone = self._collectives.world_size
        flags = [counted(have, finite, sound, everyone) for have, finite, sound in self._counts.tolist()]
        rows = [
            [self._codec.payload(part.piece, payload, part.piece.dtype, rank=self._collectives.rank)]
            if flag & HAS_GRADIENT
            else [None]
            for part, payload, flag in zip(self._parts, self._payloads, flags, strict=True)
        ]
        outs = [part.tensor for part in self._parts]
        self._codec.deliver(self._parts, flags, lambda: self._codec.merge(rows, outs, mean=False))

    def _sections(self) -> Iterator[torch.Tensor]:
        for payload, part in zip(self._payloads, self._parts, strict=True):
            yield from typed_sections(self._codec.compressor, part.piece.shape, part.piece.dtype, payload)
