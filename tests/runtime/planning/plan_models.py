"""Small jobs and costs that tests of the planner share."""

from __future__ import annotations

import math

from compll.runtime.planning.costs import Compute, Costs, Topology
from compll.runtime.planning.curves import Curve
from compll.runtime.planning.jobs import Gradient, Job
from compll.runtime.planning.links import Link

COMPUTE = Compute(
    encode=Curve(floor=2e-5, base=1e-5, slope=8e-10), decode=Curve(floor=2e-5, slope=2e-10),
    decode_add=Curve(floor=1e-5, slope=1e-11), copy=Curve(floor=5e-6, slope=1.2e-10),
    cast=Curve(floor=5e-6, slope=2e-10),
)  # fmt: skip
STRATEGIES = ("allgather", "ps", "ring")


def payload_bytes(shape: tuple[int, ...], dtype: str) -> int:
    """One element in a hundred, eight bytes each."""
    return 8 * max(1, math.prod(shape) // 100)


def costs(ranks: int = 4, gbit: float = 1.0, compute: Compute = COMPUTE, node_size: int = 1) -> Costs:
    link = Link(latency=2e-5, bandwidth=gbit * 1e9 / 8)
    near = Link(latency=5e-6, bandwidth=1e11)
    topology = Topology.of_links(ranks, link, node_size=node_size, inside=near if node_size > 1 else None)
    return Costs(compute=compute, topology=topology, payload_bytes=payload_bytes)


def job(rows: tuple[int, ...] = (64, 512, 512, 2048), columns: int = 1024, backward_s: float = 0.02) -> Job:
    """A matrix and a vector in each bucket, ready at even distances."""
    gradients = []
    for bucket, count in enumerate(rows):
        ready = backward_s * (bucket + 1) / len(rows)
        gradients += [
            Gradient(name=f"{bucket}.weight", shape=(count, columns), bucket=bucket, ready_s=ready, compressible=True),
            Gradient(name=f"{bucket}.bias", shape=(count,), bucket=bucket, ready_s=ready, compressible=False),
        ]
    return Job(gradients=tuple(gradients), backward_s=backward_s)
