"""Predicted steps of whole strategies, by number of workers and bandwidth, and where compression stops paying."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from compll.cli.planning.compressors import Candidate
from compll.runtime.plan import DENSE
from compll.runtime.planning.costs import Topology
from compll.runtime.planning.jobs import Job
from compll.runtime.planning.links import Link, Measured
from compll.runtime.planning.samples import Sample
from compll.runtime.planning.search import uniform_plans

#: A link whose bandwidth is within this factor of what collectives made of the measured ones is one of them.
NEAR = 1.25

#: What plain DDP and its bf16 hook are called.
PLAIN = {"dense": "dense-fp32", "dense-bf16": "dense-bf16"}

#: Bits a second between which the end of paying is looked for: steps of half a decade, then halved so often.
SLOWEST, FASTEST = 1e6, 1e13
PER_DECADE = 2
HALVINGS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Steps in seconds by name: dense-fp32, dense-bf16, compressor/strategy."""

    model: str
    workers: int
    bandwidth: str
    steps: Mapping[str, float]

    @property
    def best(self) -> str:
        """The shortest step; of equal ones the first, and dense ones come first."""
        return min(self.steps, key=lambda name: self.steps[name])

    def as_json(self) -> dict[str, Any]:
        steps = {name: 1e3 * step for name, step in self.steps.items()}
        return {
            "model": self.model, "workers": self.workers, "bandwidth": self.bandwidth, "best": self.best,
            "step_ms": steps,
        }  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """The cluster but for its size and bandwidth: seconds a message, ranks per node, the links inside one; and how the
    ranks of the profile are joined, if there are several."""

    latency: float
    node_size: int = 1
    inside: Link | None = None
    measured: Topology | None = None

    def topology(self, workers: int, bits: float) -> Topology:
        """`workers` on links of so many bits a second: as measured where that is what was measured, else by formula."""
        if self.measured is not None and self._is_measured(self.measured, workers, bits):
            return self.measured
        link = Link(latency=self.latency, bandwidth=bits / 8)
        return Topology.of_links(workers, link, node_size=self.node_size, inside=self.inside)

    def _is_measured(self, measured: Topology, workers: int, bits: float) -> bool:
        if (workers, self.node_size) != (measured.world_size, measured.node_size):
            return False
        return isinstance(measured.everyone, Measured) and 1 / NEAR < bits / 8 / measured.everyone.bandwidth < NEAR


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulation:
    """One model; `shared` are the samples that no compressor has a part in."""

    job: Job
    shared: Sequence[Sample]
    candidates: Sequence[Candidate]
    world: World

    def steps(self, workers: int, bits: float) -> dict[str, float]:
        """The step of plain DDP, of its bf16 hook, and of every compressor with each strategy it allows."""
        topology = self.world.topology(workers, bits)
        found: dict[str, float] = {}
        for candidate in self.candidates:
            predictor = candidate.predictor(self.job, self.shared, topology)
            found |= {PLAIN[name]: predictor.plain(name).step_s for name in DENSE}
            strategies = candidate.strategies(topology)
            plans = (u for u in uniform_plans(predictor, strategies, parts=(1,)) if u.strategy in strategies)
            found |= {f"{candidate.label}/{plan.strategy}": plan.found.step_s for plan in plans}
        return found

    def break_even(self, workers: int, label: str) -> float | None:
        """The bandwidth, in bits a second, up to which a compressor shortens the step against plain DDP and its bf16
        hook; inf if it still does at FASTEST, None if it never does."""
        bits = FASTEST
        if self._pays(workers, bits, label):
            return float("inf")
        while not self._pays(workers, bits := bits / 10 ** (1 / PER_DECADE), label):
            if bits < SLOWEST:
                return None
        low, high = bits, bits * 10 ** (1 / PER_DECADE)
        for _ in range(HALVINGS):
            middle = (low * high) ** 0.5
            low, high = (middle, high) if self._pays(workers, middle, label) else (low, middle)
        return low

    def _pays(self, workers: int, bits: float, label: str) -> bool:
        chosen = Simulation(
            job=self.job, shared=self.shared, world=self.world,
            candidates=[c for c in self.candidates if c.label == label],
        )  # fmt: skip
        steps = chosen.steps(workers, bits)
        dense = min(steps.pop(name) for name in PLAIN.values())
        return min(steps.values()) < dense
