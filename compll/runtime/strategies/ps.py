"""Parameter-server style with co-located aggregators (CaSync-PS): every rank merges what it owns.

Payloads go to the owners of their pieces (all-to-all); an owner decodes and adds them in rank order, divides, encodes
the mean again with a residual of its own, and sends that to all. Every rank, the owner included, decodes the same
bytes. Two lossy steps and two payloads of traffic for each rank, whatever the number of ranks. Payloads that add are
added as they are, with one lossy step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch

from compll.runtime.codec import ToEncode, flags_of_all, is_whole
from compll.runtime.collectives import Handle
from compll.runtime.gradients import GradientSpec
from compll.runtime.payload import Payload
from compll.runtime.pieces import Piece, assign
from compll.runtime.strategies.base import Context, StateSpec, Unit
from compll.runtime.strategies.sharing import Shares
from compll.runtime.tasks import Graph, Kind, chain, compute, transfer


class ParameterServer:
    """Needs a program without collectives of its own."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._loads = [0] * context.collectives.world_size

    def pieces(self, spec: GradientSpec, parts: int) -> Sequence[Piece]:
        return list(assign(spec, parts, self._context.codec.own.first, self._loads))

    def states(self, piece: Piece) -> Iterator[StateSpec]:
        yield StateSpec(name=piece.name, piece=piece, dtype=piece.dtype)
        if piece.owner == self._context.collectives.rank and not self._context.codec.adds_payloads:
            yield StateSpec.passed_on(piece)

    def open(self, unit: Unit) -> Graph:
        exchange = _Exchange(self._context, unit)
        return chain(
            compute(Kind.ENCODE, exchange.encode),
            transfer(exchange.push),
            compute(Kind.MERGE, exchange.merge),
            compute(Kind.ENCODE, exchange.encode_means),
            transfer(exchange.pull),
            compute(Kind.DECODE, exchange.decode),
        )


class _Exchange:
    def __init__(self, context: Context, unit: Unit) -> None:
        self._codec, self._collectives = context.codec, context.collectives
        ranks, rank, compressor = self._collectives.world_size, self._collectives.rank, self._codec.compressor
        self._own = Shares(unit.parts, unit.payload_sizes(compressor), ranks)
        self._dtype = None if self._codec.adds_payloads else torch.float32  # of means; None: the gradient's
        self._means = Shares(unit.parts, unit.payload_sizes(compressor, self._dtype), ranks)
        self._pieces = [part.piece for part in self._own[rank].parts]
        self._sums = [] if self._dtype is None else [context.floats(unit, "sum", piece) for piece in self._pieces]
        self._flags: list[int] = []
        self._sent = context.zeros(unit, "sent", sum(self._own.nbytes))
        self._pushed = context.memory(unit, "pushed", self._own[rank].nbytes * ranks)
        self._mean = context.zeros(unit, "mean", self._means[rank].nbytes)
        self._pulled = context.memory(unit, "pulled", sum(self._means.nbytes))

    def encode(self) -> None:
        flags = self._codec.encode(self._own.parts, self._own.payloads(self._sent))
        self._own.write_flags(self._sent, flags)

    def push(self, done: Callable[[], None]) -> Handle:
        ranks, rank = self._collectives.world_size, self._collectives.rank
        sizes = [self._own[rank].nbytes] * ranks
        return self._collectives.all_to_all(self._pushed, sizes, self._sent, self._own.nbytes, done)

    def merge(self) -> None:
        envelope = self._own[self._collectives.rank].envelope
        messages = self._pushed.view(self._collectives.world_size, -1)
        by_rank = envelope.read_all_flags(list(messages))
        self._flags = flags_of_all(by_rank)
        buffers = [envelope.payloads(message) for message in messages]
        rows = self._codec.rows(self._pieces, by_rank, buffers)
        if self._dtype is None:
            self._add(rows)
        else:
            self._codec.merge(rows, self._sums, mean=True)

    def _add(self, rows: Sequence[Sequence[Payload | None]]) -> None:
        outs = self._means[self._collectives.rank].envelope.payloads(self._mean)
        for piece, row, out in zip(self._pieces, rows, outs, strict=True):
            buffers = [payload.buffer for payload in row if payload is not None]
            self._codec.add_payloads(piece, piece.dtype, buffers, out, divisor=len(row))

    def encode_means(self) -> None:
        envelope = self._means[self._collectives.rank].envelope
        sums: dict[int, ToEncode] = {}
        if self._dtype is not None:
            owned = zip(self._pieces, self._sums, envelope.payloads(self._mean), strict=True)
            sums = {i: ToEncode(p, value, out, StateSpec.passed_on(p).name) for i, (p, value, out) in enumerate(owned)}
        envelope.write_flags(self._mean, self._codec.encode_sums(sums, self._flags, self._mean.device, hop=1))

    def pull(self, done: Callable[[], None]) -> Handle:
        ranks = self._collectives.world_size
        copies = self._mean.repeat(ranks)
        return self._collectives.all_to_all(self._pulled, self._means.nbytes, copies, [len(self._mean)] * ranks, done)

    def decode(self) -> None:
        parts, flags = self._means.parts, self._means.read_flags(self._pulled)
        rows = [
            [self._codec.payload(part.piece, buffer, self._dtype or part.piece.dtype, rank=part.piece.owner, hop=1)]
            if is_whole(flag)
            else [None]
            for part, buffer, flag in zip(parts, self._means.payloads(self._pulled), flags, strict=True)
        ]
        self._codec.deliver(parts, flags, lambda: self._codec.merge(rows, [p.tensor for p in parts], mean=False))
