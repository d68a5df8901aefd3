"""What one message does, strategy by strategy: computations and collectives in turns. Pure.

With N ranks, x elements and c payload bytes:
- dense, dense-bf16: copy, all-reduce, copy back; one of each for each dtype.
- allgather: encode, all-gather of c, merge of N payloads. allreduce: encode, all-reduce of c, decode.
- ps: every rank merges a share of all: encode, all-to-all of c, merge N payloads of x/N and encode the sum, all-to-all
  of N copies of c/N, decode x.
- ring: N - 1 hops of c/N, with decode, add and encode of x/N before each but the first, N - 1 that forward; decode x.
- hierarchical, nodes of L: copy, all-to-all of x inside the node, add and encode x/L, all-gather of c/L across nodes,
  merge, all-to-all of L copies of x/L inside the node, copy.
- rounds: a first and a last word of all ranks; between them twice half of encode, then half of c there and back by
  all-to-alls.

A share is x/N even where the runtime gives a small gradient to one rank: with many of them the shares level out. All
gradients of a message have a part in every share.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from compll.runtime.dealing import dealt
from compll.runtime.planning.costs import Costs

#: A ring's hops are simulated in at most so many groups of equal hops, each as one round.
MOST_ROUNDS = 8
BF16_BYTES = 2
WORD_BYTES = 8


@dataclass(frozen=True, slots=True)
class Round:
    """Seconds on the compute lane, then seconds on the wire; of so many equal hops in a row."""

    compute: float
    wire: float
    hops: int = 1


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
    """What travels together: `count` gradients, their elements, their bytes as they are, their bytes as payloads.

    Dense ones travel in `count` collectives of about equal size.
    """

    strategy: str
    elements: int
    dense_bytes: int
    payload_bytes: int = 0
    count: int = 1


def work(message: Message, costs: Costs) -> Work:
    """The rounds of a message, and what the runtime itself does for every computation and collective.

    Every collective is priced at the size that it really has, as is every decoder.
    """
    bare, task = bare_work(message, costs), costs.compute.task_of(message.strategy)
    rounds = tuple(Round(r.compute + 2 * r.hops * task, r.wire, r.hops) for r in bare.rounds)
    return Work(rounds, bare.finish + task)


def bare_work(message: Message, costs: Costs) -> Work:
    """The rounds of a message without the runtime's own work."""
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
    encode = costs.compute.encoding(m.elements, m.count)
    wire = costs.topology.everyone.all_gather(m.payload_bytes)
    return Work((Round(encode, wire),), costs.compute.merging(m.elements, m.count, costs.topology.world_size))


def _allreduce(m: Message, costs: Costs) -> Work:
    encode = costs.compute.encoding(m.elements, m.count)
    wire = costs.topology.everyone.all_reduce(m.payload_bytes)
    return Work((Round(encode, wire),), costs.compute.merging(m.elements, m.count))


def _ps(m: Message, costs: Costs) -> Work:
    ranks, compute = costs.topology.world_size, costs.compute
    wire = costs.topology.everyone.all_to_all(m.payload_bytes)
    aggregate = compute.merging(m.elements / ranks, m.count, ranks) + compute.encoding(m.elements / ranks, m.count)
    rounds = Round(compute.encoding(m.elements, m.count), wire), Round(aggregate, wire)
    return Work(rounds, compute.merging(m.elements, m.count))


def _ring(m: Message, costs: Costs) -> Work:
    ranks, compute = costs.topology.world_size, costs.compute
    share = m.elements / ranks
    encode = compute.encoding(share, m.count)
    hop = costs.topology.everyone.shift(m.payload_bytes / ranks)
    adding = Round(compute.decode_add(share) + max(0, m.count - 1) * compute.decode_each + encode, hop)
    first = Round(compute.copy(m.elements) + encode, hop)
    total = (adding,) if ranks > 1 else ()
    rounds = first, *_grouped(adding, ranks - 2), *total, *_grouped(Round(0.0, hop), ranks - 2)
    return Work(rounds, compute.merging(m.elements, m.count))


def _grouped(hop: Round, count: int) -> tuple[Round, ...]:
    sizes = dealt(count, min(count, MOST_ROUNDS))
    return tuple(Round(hop.compute * size, hop.wire * size, size) for size in sizes)


def _hierarchical(m: Message, costs: Costs) -> Work:
    topology, compute = costs.topology, costs.compute
    near = topology.node_size
    share, copy = m.elements / near, compute.copy(m.elements)
    inner = topology.inside.all_to_all(m.dense_bytes)
    return Work(
        (
            Round(copy, inner),
            Round(copy + compute.encoding(share, m.count), topology.across.all_gather(m.payload_bytes / near)),
            Round(compute.merging(share, m.count, topology.nodes), inner),
        ),
        copy,
    )


def _rounds(m: Message, costs: Costs) -> Work:
    everyone, half = costs.topology.everyone, costs.compute.encoding(m.elements, m.count) / 2
    share = everyone.all_to_all(m.payload_bytes / 2)
    word, scatter, gather = Round(0.0, everyone.all_reduce(WORD_BYTES)), Round(half, share), Round(0.0, share)
    return Work((word, scatter, gather, scatter, gather, word), costs.compute.merging(m.elements, m.count))


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
