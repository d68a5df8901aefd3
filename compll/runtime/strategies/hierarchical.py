"""Dense inside a node, compressed across: for machines whose links inside are much faster than those between.

The ranks of a node share the work: each owns some pieces, gets them from the others as they are and adds them up in
rank order; compresses the node's mean; exchanges payloads with the owners of the same pieces in the other nodes; and
hands the mean of all to the others in its node. One lossy step, one residual for each piece and node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch

from compll.diagnostics import InternalError
from compll.runtime.codec import Part, flags_of_all
from compll.runtime.collectives import Collectives, Handle
from compll.runtime.envelope import ABSENT, HAS_GRADIENT, WHOLE, Envelope
from compll.runtime.gradients import GradientSpec
from compll.runtime.pieces import Piece, assign
from compll.runtime.rounding import divide, round_into
from compll.runtime.strategies.base import Context, StateSpec, Unit
from compll.runtime.strategies.sharing import Shares
from compll.runtime.tasks import Graph, Kind, chain, compute, transfer


class Hierarchical:
    """Needs nodes of equal size, and a program without collectives of its own."""

    def __init__(self, context: Context) -> None:
        if context.node is None or context.across is None:
            raise InternalError("strategy hierarchical without nodes")
        self._context = context
        self._node, self._across = context.node, context.across
        self._loads = [0] * context.node.world_size

    def pieces(self, spec: GradientSpec, parts: int) -> Sequence[Piece]:
        return list(assign(spec, parts, self._context.codec.own.first, self._loads))

    def states(self, piece: Piece) -> Iterator[StateSpec]:
        if piece.owner == self._node.rank:
            yield StateSpec(name=piece.name, piece=piece, dtype=torch.float32)

    def open(self, unit: Unit) -> Graph:
        exchange = _Exchange(self._context, unit, self._node, self._across)
        return chain(
            compute(Kind.ENCODE, exchange.lay_out),
            transfer(exchange.scatter),
            compute(Kind.MERGE, exchange.add),
            compute(Kind.ENCODE, exchange.encode),
            transfer(exchange.gather),
            compute(Kind.MERGE, exchange.merge),
            transfer(exchange.hand_out),
            compute(Kind.DECODE, exchange.store),
        )


class _Exchange:
    def __init__(self, context: Context, unit: Unit, node: Collectives, across: Collectives) -> None:
        self._codec, self._node, self._across = context.codec, node, across
        self._dense = Shares(unit.parts, [p.piece.numel * p.piece.dtype.itemsize for p in unit.parts], node.world_size)
        self._owned = self._dense[node.rank]
        pieces = [part.piece for part in self._owned.parts]
        compressor = context.codec.compressor
        self._payloads = Envelope(tuple(compressor.payload_bytes(p.shape, torch.float32) for p in pieces))
        self._means = [context.floats(unit, "mean", piece) for piece in pieces]
        self._flags: list[int] = []
        self._laid_out = context.zeros(unit, "laid out", sum(self._dense.nbytes))
        self._scattered = context.memory(unit, "scattered", self._owned.nbytes * node.world_size)
        self._sent = context.zeros(unit, "sent", self._payloads.nbytes)
        self._gathered = context.memory(unit, "gathered", self._payloads.nbytes * across.world_size)
        self._result = context.zeros(unit, "result", self._owned.nbytes)
        self._results = context.memory(unit, "results", sum(self._dense.nbytes))

    # --- inside the node ---------------------------------------------------------------------------------------------

    def lay_out(self) -> None:
        for part, out in zip(self._dense.parts, self._dense.payloads(self._laid_out), strict=True):
            _typed(out, part.piece).copy_(part.tensor)
        self._dense.write_flags(self._laid_out, [WHOLE if part.present else ABSENT for part in self._dense.parts])

    def scatter(self, done: Callable[[], None]) -> Handle:
        sizes = [self._owned.nbytes] * self._node.world_size
        return self._node.all_to_all(self._scattered, sizes, self._laid_out, self._dense.nbytes, done)

    def add(self) -> None:
        """The node's means, in rank order and in f32."""
        messages = self._scattered.view(self._node.world_size, -1)
        by_place = self._owned.envelope.read_all_flags(list(messages))
        self._flags = flags_of_all(by_place, "place in the node")
        given = [self._owned.envelope.payloads(message) for message in messages]
        for i, (mean, part) in enumerate(zip(self._means, self._owned.parts, strict=True)):
            mean.zero_()
            for payloads in given:
                mean.add_(_typed(payloads[i], part.piece))
        divide(self._means, [self._node.world_size] * len(self._means))

    # --- across nodes ------------------------------------------------------------------------------------------------

    def encode(self) -> None:
        parts = [
            Part(part.piece, mean, bool(flag & HAS_GRADIENT))
            for part, mean, flag in zip(self._owned.parts, self._means, self._flags, strict=True)
        ]
        self._payloads.write_flags(self._sent, self._codec.encode(parts, self._payloads.payloads(self._sent)))

    def gather(self, done: Callable[[], None]) -> Handle:
        return self._across.all_gather(self._gathered, self._sent, done)

    def merge(self) -> None:
        messages = self._gathered.view(self._across.world_size, -1)
        by_node = self._payloads.read_all_flags(list(messages))
        flags = flags_of_all(by_node, "node")
        buffers = [self._payloads.payloads(message) for message in messages]
        rows = self._codec.rows([part.piece for part in self._owned.parts], by_node, buffers, torch.float32)
        self._codec.merge(rows, self._means, mean=True)
        for out, mean, part in zip(self._owned.envelope.payloads(self._result), self._means, self._owned.parts):
            round_into(mean, _typed(out, part.piece))
        self._owned.envelope.write_flags(self._result, flags)

    # --- inside the node again ---------------------------------------------------------------------------------------

    def hand_out(self, done: Callable[[], None]) -> Handle:
        ranks = self._node.world_size
        copies, sizes = self._result.repeat(ranks), [self._owned.nbytes] * ranks
        return self._node.all_to_all(self._results, self._dense.nbytes, copies, sizes, done)

    def store(self) -> None:
        flags = self._dense.read_flags(self._results)
        self._codec.deliver(self._dense.parts, flags, self._copy)

    def _copy(self) -> None:
        for part, result in zip(self._dense.parts, self._dense.payloads(self._results), strict=True):
            part.tensor.copy_(_typed(result, part.piece))


def _typed(buffer: torch.Tensor, piece: Piece) -> torch.Tensor:
    return buffer.view(piece.dtype).view(piece.shape)
