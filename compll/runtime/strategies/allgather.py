"""Every rank gets every payload: one all-gather, then decode and add in rank order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch

from compll.runtime.codec import flags_of_all, is_whole
from compll.runtime.collectives import Handle
from compll.runtime.envelope import Envelope
from compll.runtime.gradients import GradientSpec
from compll.runtime.pieces import Piece, cut
from compll.runtime.strategies.base import Context, StateSpec, Unit
from compll.runtime.tasks import Graph, Kind, chain, compute, transfer


class AllGather:
    """The strategy that works for every program."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def pieces(self, spec: GradientSpec, parts: int) -> Sequence[Piece]:
        return cut(spec, parts, self._context.codec.own.first)

    def states(self, piece: Piece) -> Iterator[StateSpec]:
        yield StateSpec(name=piece.name, piece=piece, dtype=piece.dtype)

    def open(self, unit: Unit) -> Graph:
        exchange = Gathering(self._context, unit)
        return chain(
            compute(Kind.ENCODE, exchange.encode), transfer(exchange.gather), compute(Kind.DECODE, exchange.decode)
        )


class Gathering:
    """The payloads of a unit on their way to all ranks."""

    def __init__(self, context: Context, unit: Unit) -> None:
        self._codec, self._collectives, self._unit = context.codec, context.collectives, unit
        self._envelope = Envelope(unit.payload_sizes(context.codec.compressor))
        self._sent = context.zeros(unit, "sent", self._envelope.nbytes)
        self._context, self._received = context, torch.empty(0)

    @property
    def payloads(self) -> list[torch.Tensor]:
        """Where to encode the parts, zeroed."""
        return self._envelope.payloads(self._sent)

    def encode(self) -> None:
        self.write_flags(self._codec.encode(self._unit.parts, self.payloads))

    def write_flags(self, flags: Sequence[int]) -> None:
        self._envelope.write_flags(self._sent, flags)

    def gather(self, done: Callable[[], None]) -> Handle:
        nbytes = self._envelope.nbytes * self._collectives.world_size
        self._received = self._context.memory(self._unit, "received", nbytes)
        return self._collectives.all_gather(self._received, self._sent, done)

    def decode(self) -> None:
        envelopes = self._received.view(self._collectives.world_size, -1)
        by_rank = [self._envelope.read_flags(envelope) for envelope in envelopes]
        parts, buffers = self._unit.parts, [self._envelope.payloads(envelope) for envelope in envelopes]
        rows = [
            [
                self._codec.payload(part.piece, buffers[rank][i], part.piece.dtype, rank=rank) if is_whole(flags[i])
                else None
                for rank, flags in enumerate(by_rank)
            ]
            for i, part in enumerate(parts)
        ]  # fmt: skip
        outs: list[torch.Tensor] = [part.tensor for part in parts]
        self._codec.deliver(parts, flags_of_all(by_rank), lambda: self._codec.merge(rows, outs, mean=True))
