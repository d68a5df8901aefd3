"""For programs with collectives of their own (`all_reduce_mean`): each is a round of all ranks.

A first message says who has which gradient, so that all ranks take part where one does, and none where none does. In
between go the means that encode asks for, those of a unit together: every rank adds up a share, in rank order. (In an
all-reduce the order of a sum depends on where it lies in the message, so on what else a bucket holds, and a resumed
run would differ.) Where what comes out is the same everywhere, a last message says whether it was finite and sound
everywhere; else the payloads are gathered.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from compll.codegen import ir
from compll.runtime.collectives import Handle
from compll.runtime.compressor import Compressor
from compll.runtime.dealing import dealt
from compll.runtime.envelope import ABSENT, FINITE, SOUND, WHOLE, counted, votes, where_finite
from compll.runtime.payload import Payload
from compll.runtime.rounding import divide
from compll.runtime.rounds import Rounds
from compll.runtime.strategies.allgather import Gathering
from compll.runtime.strategies.base import Context, Unit, Unshared
from compll.runtime.streams import uploaded
from compll.runtime.tasks import Graph, Kind, chain, compute, transfer


class InRounds(Unshared):
    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._rounds = _rounds_of(context.codec.own.first)

    def open(self, unit: Unit) -> Graph:
        exchange = _Exchange(self._context, unit)
        stages = [transfer(exchange.announce), compute(Kind.ENCODE, exchange.begin)]
        for _ in range(self._rounds):
            stages += [transfer(exchange.scatter), compute(Kind.MERGE, exchange.add)]
            stages += [transfer(exchange.gather), compute(Kind.ENCODE, exchange.go_on)]
        if self._context.codec.compressor.replicated:
            return chain(*stages, transfer(exchange.confirm), compute(Kind.DECODE, exchange.decode))
        gathering = exchange.gathering
        return chain(*stages, transfer(gathering.gather), compute(Kind.DECODE, gathering.decode))


def _rounds_of(compressor: Compressor) -> int:
    operations = compressor.at_any_shape.function("encode").operations
    return sum(isinstance(operation, ir.AllReduce) for operation in operations)


class _Exchange:
    def __init__(self, context: Context, unit: Unit) -> None:
        self._codec, self._collectives, self._parts = context.codec, context.collectives, unit.parts
        self.gathering = Gathering(context, unit)
        self._device = context.collectives.device
        self._having = torch.zeros(len(unit.parts), device=self._device)
        self._had = [0.0] * len(unit.parts)  # by how many ranks, as the host has read it
        self._counts = torch.zeros(len(unit.parts), 2, device=self._device)  # ranks on which it is finite, and sound
        self._taking_part: list[int] = []
        self._rounds: Rounds | None = None
        self._values: list[torch.Tensor] | None = None  # of the round that is due; None: not computed
        self._reduced: list[torch.Tensor] = []  # those of the last round, which become means
        self._shares: list[int] = []  # how many of their elements each rank adds up
        self._scattered = self._mean = self._means = torch.empty(0, device=self._device)
        self._round = 0

    def announce(self, done: Callable[[], None]) -> Handle:
        self._having = uploaded([float(part.present) for part in self._parts], torch.float32, self._device)
        return self._collectives.all_reduce([self._having], done)

    def begin(self) -> None:
        self._had = self._having.tolist()
        self._taking_part = [i for i, count in enumerate(self._had) if count]
        payloads = self.gathering.payloads
        parts, outs = [self._parts[i] for i in self._taking_part], [payloads[i] for i in self._taking_part]
        self._rounds = self._codec.encode_rounds(parts, outs)
        self.go_on()

    def go_on(self) -> None:
        """Compute up to the next mean; after the last, say how it went."""
        if self._rounds is None:
            return
        if self._reduced:
            means = torch.split(self._means, [each.numel() for each in self._reduced])
            torch._foreach_copy_(self._reduced, list(means))
        values = next(self._rounds, None)
        if values is None:
            self._tell(self._rounds)
        self._values = values or []

    def scatter(self, done: Callable[[], None]) -> Handle:
        """All values of a round in one message, a share of it to each rank; after a failure, here or of another unit,
        zeros, as many as the others expect."""
        values, self._values = self._values, None
        self._reduced = [torch.zeros(self._expected(), device=self._device)] if values is None else values
        self._round += 1
        ranks, nothing = self._collectives.world_size, torch.empty(0, device=self._device)
        sent = torch.cat([*self._reduced, nothing])
        self._shares = dealt(sent.numel(), ranks)
        mine = self._shares[self._collectives.rank]
        self._mean = torch.zeros(mine, device=self._device)
        self._scattered = torch.empty(ranks * mine, device=self._device)
        return self._collectives.all_to_all(self._scattered, [mine] * ranks, sent, self._shares, done)

    def add(self) -> None:
        """In rank order, wherever in the message a value lies."""
        ranks = self._collectives.world_size
        for of_rank in self._scattered.view(ranks, self._mean.numel()):
            self._mean.add_(of_rank)
        divide([self._mean], [ranks])

    def gather(self, done: Callable[[], None]) -> Handle:
        ranks, mine = self._collectives.world_size, self._mean.numel()
        self._means = torch.empty(sum(self._shares), device=self._device)
        return self._collectives.all_to_all(self._means, self._shares, self._mean.repeat(ranks), [mine] * ranks, done)

    def _expected(self) -> int:
        having = [part for part, count in zip(self._parts, self._having.tolist(), strict=True) if count]
        sizes = [self._codec.compressor.round_sizes(part.tensor) for part in having]
        return sum(of_part[self._round] for of_part in sizes if self._round < len(of_part))

    def confirm(self, done: Callable[[], None]) -> Handle:
        return self._collectives.all_reduce([self._counts], done)

    def decode(self) -> None:
        """Every rank its own payloads: they are the same on all."""
        flags = [
            counted(having, finite, sound, self._collectives.world_size)
            for having, (finite, sound) in zip(self._had, self._counts.tolist(), strict=True)
        ]
        rows: list[list[Payload | None]] = [[None] for _ in self._parts]
        for i in self._taking_part:
            piece = self._parts[i].piece
            rows[i] = [self._codec.payload(piece, self.gathering.payloads[i], piece.dtype, rank=self._collectives.rank)]
        outs = [part.tensor for part in self._parts]
        self._codec.deliver(self._parts, flags, lambda: self._codec.merge(rows, outs, mean=False))

    def _tell(self, rounds: Rounds) -> None:
        flags = [WHOLE if i in self._taking_part else ABSENT for i in range(len(self._parts))]
        finite = {i: payload.is_finite for i, payload in zip(self._taking_part, rounds.payloads, strict=True)}
        told = where_finite(flags, finite, self._device)
        self.gathering.write_flags(told)
        self._counts = votes(told, (FINITE, SOUND))
