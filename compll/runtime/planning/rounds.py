"""What one message does, strategy by strategy: computations and collectives in turns. Pure.

With N ranks, x elements and c payload bytes:
- dense, dense-bf16: copy, all-reduce, copy back; several of each where the gradients are reduced one by one.
- allgather: encode, all-gather of c, merge of N payloads. allreduce: encode, all-reduce of c, decode.
- ps: every rank merges a share of all: encode, all-to-all of c, merge N payloads of x/N and encode the sum, all-to-all
  of N copies of c/N, decode x.
- ring: N - 1 hops of c/N, with decode, add and encode of x/N before each but the first, N - 1 that forward; decode x.
- hierarchical, nodes of L: copy, all-to-all of x inside the node, add and encode x/L, all-gather of c/L across nodes,
  merge, all-to-all of L copies of x/L inside the node, copy.
- rounds: a first and a last word of all ranks, between them two all-reduces that share c, each after half of encode.

A share is x/N even where the runtime gives a small gradient to one rank: with many of them the shares level out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from compll.runtime.planning.costs import Costs

#: A ring's hops are simulated in at most so many groups of equal hops, each as one round.
MOST_ROUNDS = 8
BF16_BYTES = 2
WORD_BYTES = 8


@dataclass(frozen=True, slots=True)
class Round:
    """Seconds on the compute lane, then seconds on the wire."""

    compute: float
    wire: float


@dataclass(frozen=True, slots=True)
class Work:
    """The rounds of a message in order, and the computation that ends it."""

    rounds: tuple[Round, ...]
    finish: float

    @property
    def wire(self) -> float:
        return sum(r.wire for r in self.rounds)

    @property
    def compute(self) -> float:
        return sum(r.compute for r in self.rounds) + self.finish


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """What travels together: elements, their bytes as they are, their bytes as payloads; dense ones in `count`
    collectives of about equal size."""

    strategy: str
    elements: int
    dense_bytes: int
    payload_bytes: int = 0
    count: int = 1


def work(message: Message, costs: Costs) -> Work:
    """The rounds of a message. Every collective is priced at the size that it really has, as is every decoder."""
    return _WORKS[message.strategy](message, costs)


def _dense(m: Message, costs: Costs) -> Work:
    copy = m.count * costs.compute.copy(m.elements / m.count)
    wire = m.count * costs.topology.everyone.all_reduce(m.dense_bytes / m.count)
    return Work((Round(copy, wire),), copy)


def _dense_bf16(m: Message, costs: Costs) -> Work:
    cast = m.count * costs.compute.cast(m.elements / m.count)
    wire = m.count * costs.topology.everyone.all_reduce(BF16_BYTES * m.elements / m.count)
    return Work((Round(cast, wire),), cast)


def _allgather(m: Message, costs: Costs) -> Work:
    encode = costs.compute.encode(m.elements)
    wire = costs.topology.everyone.all_gather(m.payload_bytes)
    return Work((Round(encode, wire),), costs.compute.merge(m.elements, costs.topology.world_size))


def _allreduce(m: Message, costs: Costs) -> Work:
    encode = costs.compute.encode(m.elements)
    return Work((Round(encode, costs.topology.everyone.all_reduce(m.payload_bytes)),), costs.compute.decode(m.elements))


def _ps(m: Message, costs: Costs) -> Work:
    ranks, compute, net = costs.topology.world_size, costs.compute, costs.topology.everyone
    share = m.elements / ranks
    aggregate = compute.merge(share, ranks) + compute.encode(share)
    exchange = Round(compute.encode(m.elements), net.all_to_all(m.payload_bytes))
    return Work((exchange, Round(aggregate, net.all_to_all(m.payload_bytes))), compute.decode(m.elements))


def _ring(m: Message, costs: Costs) -> Work:
    ranks, compute = costs.topology.world_size, costs.compute
    share = m.elements / ranks
    hop = costs.topology.everyone.shift(m.payload_bytes / ranks)
    add = compute.decode_add(share) + compute.encode(share)
    first = Round(compute.copy(m.elements) + compute.encode(share), hop)
    adding = _grouped(Round(add, hop), ranks - 2)
    total = (Round(add, hop),) if ranks > 1 else ()
    forwarding = _grouped(Round(0.0, hop), ranks - 2)
    return Work((first, *adding, *total, *forwarding), compute.decode(m.elements))


def _grouped(hop: Round, count: int) -> tuple[Round, ...]:
    groups = min(count, MOST_ROUNDS)
    sizes = [count * (i + 1) // groups - count * i // groups for i in range(groups)]
    return tuple(Round(hop.compute * size, hop.wire * size) for size in sizes)


def _hierarchical(m: Message, costs: Costs) -> Work:
    topology, compute = costs.topology, costs.compute
    near = topology.node_size
    share, copy = m.elements / near, compute.copy(m.elements)
    add = copy + compute.encode(share)
    merge = compute.merge(share, topology.nodes)
    return Work(
        (
            Round(copy, topology.inside.all_to_all(m.dense_bytes)),
            Round(add, topology.across.all_gather(m.payload_bytes / near)),
            Round(merge, topology.inside.all_to_all(m.dense_bytes)),
        ),
        copy,
    )


def _rounds(m: Message, costs: Costs) -> Work:
    reduce, half = costs.topology.everyone.all_reduce, costs.compute.encode(m.elements) / 2
    inner = Round(half, reduce(m.payload_bytes / 2))
    word = Round(0.0, reduce(WORD_BYTES))
    return Work((word, inner, inner, word), costs.compute.decode(m.elements))


_WORKS: dict[str, Callable[[Message, Costs], Work]] = {
    "dense": _dense,
    "dense-bf16": _dense_bf16,
    "allgather": _allgather,
    "allreduce": _allreduce,
    "ps": _ps,
    "ring": _ring,
    "hierarchical": _hierarchical,
    "rounds": _rounds,
}
