"""Everything that a plan's time depends on: what ranks compute, how they are joined, what payloads weigh. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from compll.diagnostics import CompllError
from compll.runtime.planning.curves import Curve
from compll.runtime.planning.links import Link, Linked, Network

#: Bytes of a payload: of a gradient's shape and the name of its dtype (`float32`, `float16`, `bfloat16`).
PayloadBytes = Callable[[tuple[int, ...], str], int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Compute:
    """Seconds by elements of the gradient, encoded or not: a decoder writes as many as it would from a dense payload.

    `decode` writes the first payload, `decode_add` adds one more; `copy` is one way between a bucket and a message in
    the gradient's own dtype, `cast` the same through bf16. Those are of one gradient; `encode_each` and `decode_each`
    are what another gradient costs in the same call, whatever its size. `task` is the runtime's own work for each
    computation and each collective that it starts; `tasks` has it by strategy, where it is known.

    Where ranks have too few cores for backward and for this beside it, both are `sharing` times slower meanwhile.
    """

    encode: Curve
    decode: Curve
    decode_add: Curve
    copy: Curve
    cast: Curve
    encode_each: float = 0.0
    decode_each: float = 0.0
    task: float = 0.0
    sharing: float = 1.0
    tasks: Mapping[str, float] = field(default_factory=dict)

    def task_of(self, strategy: str) -> float:
        return self.tasks.get(strategy, self.task)

    def encoding(self, elements: float, gradients: float = 1) -> float:
        """Encoding `gradients` that have `elements` in all."""
        return self.encode(elements) + max(0.0, gradients - 1) * self.encode_each

    def merging(self, elements: float, gradients: float = 1, payloads: float = 1) -> float:
        """Decoding and adding `payloads` of each of them."""
        more = max(0.0, gradients - 1) * payloads * self.decode_each
        return self.decode(elements) + (payloads - 1) * self.decode_add(elements) + more


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """`world_size` ranks in nodes of `node_size`: all of them, those of one node, and one of every node. Collectives
    take `crowding` times as long while their ranks compute.

    Raises CompllError unless the nodes are full.
    """

    world_size: int
    node_size: int
    everyone: Network
    inside: Network
    across: Network
    crowding: float = 1.0

    def __post_init__(self) -> None:
        if self.node_size < 1 or self.world_size % self.node_size:
            raise CompllError(f"{self.world_size} ranks cannot be divided into nodes of {self.node_size}")

    @property
    def nodes(self) -> int:
        return self.world_size // self.node_size

    @property
    def hierarchical(self) -> bool:
        """Whether there are several nodes with several ranks."""
        return self.node_size > 1 and self.nodes > 1

    @classmethod
    def of_links(cls, world_size: int, link: Link, *, node_size: int = 1, inside: Link | None = None) -> Topology:
        """Nodes on equal links, whose ranks share them; without several nodes everything is on `inside`."""
        near = inside or link
        only = world_size <= node_size
        shared = Link(latency=link.latency, bandwidth=link.bandwidth / node_size)
        far = Linked(ranks=world_size, link=link, sharing=node_size)
        return cls(
            world_size=world_size,
            node_size=min(node_size, world_size),
            everyone=Linked(ranks=world_size, link=near) if only else far,
            inside=Linked(ranks=min(node_size, world_size), link=near),
            across=Linked(ranks=max(1, world_size // node_size), link=shared),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """What predictions are made from, for one compressor."""

    compute: Compute
    topology: Topology
    payload_bytes: PayloadBytes
