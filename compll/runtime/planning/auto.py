"""`plan="auto"`: from what rank 0 has measured in the first steps to the plan of the others. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from compll.runtime.plan import COMPRESSED, Plan
from compll.runtime.planning.costs import Costs, PayloadBytes
from compll.runtime.planning.jobs import Gradient, Job
from compll.runtime.planning.prediction import Predictor
from compll.runtime.planning.samples import Sample, compute_costs, measured_topology
from compll.runtime.planning.search import search


def decide(
    gradients: Sequence[Gradient],
    samples: Iterable[Sample],
    *,
    backward_s: float,
    world_size: int,
    node_size: int = 1,
    strategies: Sequence[str] = ("allgather", "ps", "ring", "hierarchical"),
    payload_bytes: PayloadBytes,
) -> Plan:
    """A route for every one of `gradients`, which are listed in the order in which DDP hands them out.

    `gradients` have their bucket and when they were ready, `samples` any number of timed operations; both in seconds
    from the start of a step, as is `backward_s`, the end of backward. `strategies` are those that the compressor
    allows; `hierarchical` is left out where there are no nodes of several ranks. Deterministic: equal arguments give
    the equal plan. Without a sample of encode and one of decode nothing is compressed. Raises CompllError when no
    collective was measured.
    """
    job = Job(gradients=tuple(gradients), backward_s=backward_s)
    taken = list(samples)
    topology = measured_topology(taken, world_size, node_size)
    costs = Costs(compute=compute_costs(taken), topology=topology, payload_bytes=payload_bytes)
    measured = {sample.operation for sample in taken}
    usable = allowed(strategies, hierarchical=topology.hierarchical) if {"encode", "decode"} <= measured else ()
    return search(Predictor(job, costs), usable)


def allowed(strategies: Sequence[str], *, hierarchical: bool) -> tuple[str, ...]:
    """Those of `strategies` that exist here, in the order of COMPRESSED."""
    return tuple(s for s in COMPRESSED if s in strategies and (hierarchical or s != "hierarchical"))
