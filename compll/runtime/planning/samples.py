"""Measurements as they come, and the cost curves that they make. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from compll.diagnostics import CompllError
from compll.runtime.plan import COMPRESSED
from compll.runtime.planning.costs import Compute, Topology
from compll.runtime.planning.curves import Curve, fit
from compll.runtime.planning.links import COLLECTIVES, Linked, Measured, Network, fitted_link

#: Sized by elements of the gradient; collectives are sized by the bytes that one rank hands in.
COMPUTATIONS = ("encode", "decode", "decode_add", "copy", "cast")

#: Seconds of one, whatever its size (given as 1); and factors in the place of seconds.
SINGLES = ("encode_each", "decode_each", "task")
FACTORS = ("sharing", "crowding")
OPERATIONS = (*COMPUTATIONS, *SINGLES, *FACTORS, *COLLECTIVES)

#: The runtime's own work for a task where it was not measured: two threads, one queue, some Python.
TASK_S = 1e-4

#: Between all ranks, those of one node, one of every node.
SCOPES = ("all", "node", "across")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One timed operation: one of OPERATIONS, its size in elements or bytes, seconds (of FACTORS how many times longer
    something takes); as `scope` between which ranks a collective is, and of which strategy a task. Raises CompllError
    for another operation or scope."""

    operation: str
    size: float
    seconds: float
    scope: str = "all"

    def __post_init__(self) -> None:
        scopes = COMPRESSED if self.operation == "task" else SCOPES
        if self.operation not in OPERATIONS or self.scope not in scopes:
            raise CompllError(
                f"a sample needs one of {', '.join(OPERATIONS)} of {', '.join(scopes)}, "
                f"got `{self.operation}` of `{self.scope}`"
            )


def compute_costs(samples: Iterable[Sample]) -> Compute:
    """What ranks compute. Without samples of `decode_add` another payload costs as much as the first; without those of
    `cast` it costs as much as `copy`, a task costs TASK_S; what else was not measured costs nothing."""
    taken = list(samples)
    curves = {name: curve for name in COMPUTATIONS if (curve := _curve(taken, name))}
    decode = curves.get("decode", Curve())
    copy = curves.get("copy", Curve())
    return Compute(
        encode=curves.get("encode", Curve()),
        decode=decode,
        decode_add=curves.get("decode_add", decode),
        copy=copy,
        cast=curves.get("cast", copy),
        encode_each=_single(taken, "encode_each", 0.0),
        decode_each=_single(taken, "decode_each", 0.0),
        task=_single(taken, "task", TASK_S),
        tasks={s.scope: s.seconds for s in taken if s.operation == "task"},
        sharing=_single(taken, "sharing", 1.0),
    )


def measured_topology(samples: Iterable[Sample], world_size: int, node_size: int = 1) -> Topology:
    """How the measured ranks are joined. Scopes that were not measured are on the links that all ranks are on.

    Raises CompllError without a collective between all ranks, and unless nodes are full.
    """
    taken = list(samples)
    everyone = _network(taken, "all", world_size, None)
    node = _network(taken, "node", node_size, everyone)
    across = _network(taken, "across", max(1, world_size // node_size), everyone)
    return Topology(
        world_size=world_size, node_size=node_size, everyone=everyone, inside=node, across=across,
        crowding=_single(taken, "crowding", 1.0),
    )  # fmt: skip


def _network(samples: Sequence[Sample], scope: str, ranks: int, instead: Network | None) -> Network:
    curves = {name: curve for name in COLLECTIVES if (curve := _curve(samples, name, scope))}
    if curves or not isinstance(instead, Measured):
        return Measured(ranks=ranks, curves=curves)
    return Linked(ranks=ranks, link=fitted_link(instead.ranks, instead.curves))


def _single(samples: Sequence[Sample], operation: str, otherwise: float) -> float:
    times = [s.seconds for s in samples if s.operation == operation]
    return statistics.median(times) if times else otherwise


def _curve(samples: Sequence[Sample], operation: str, scope: str = "all") -> Curve | None:
    points = [(s.size, s.seconds) for s in samples if s.operation == operation and s.scope == scope and s.size > 0]
    return fit(points) if points else None
