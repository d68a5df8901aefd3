"""Every rank gets every payload: one all-gather, then decode and add in rank order."""

from __future__ import annotations

from collections.abc import Callable

import torch

from compll.runtime.codec import flags_of_all
from compll.runtime.collectives import Handle
from compll.runtime.envelope import Envelope, Flags
from compll.runtime.strategies.base import Context, Unit, Unshared
from compll.runtime.tasks import Graph, Kind, chain, compute, transfer


class AllGather(Unshared):
    """The strategy that works for every program."""

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
        self._context, self._received = context, self._sent[:0]

    @property
    def payloads(self) -> list[torch.Tensor]:
        """Where to encode the parts, zeroed."""
        return self._envelope.payloads(self._sent)

    def encode(self) -> None:
        self.write_flags(self._codec.encode(self._unit.parts, self.payloads))

    def write_flags(self, flags: Flags) -> None:
        self._envelope.write_flags(self._sent, flags)

    def gather(self, done: Callable[[], None]) -> Handle:
        nbytes = self._envelope.nbytes * self._collectives.world_size
        self._received = self._context.memory(self._unit, "received", nbytes)
        return self._collectives.all_gather(self._received, self._sent, done)

    def decode(self) -> None:
        envelopes = self._received.view(self._collectives.world_size, -1)
        by_rank = self._envelope.read_all_flags(list(envelopes))
        parts, buffers = self._unit.parts, [self._envelope.payloads(envelope) for envelope in envelopes]
        rows = self._codec.rows([part.piece for part in parts], by_rank, buffers)
        outs: list[torch.Tensor] = [part.tensor for part in parts]
        self._codec.deliver(parts, flags_of_all(by_rank), lambda: self._codec.merge(rows, outs, mean=True))
