"""One network, measured: its links as they really are, the plan for it, the steps of every way in turns."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.netlab.lab import bits_per_second, burst, open_lab
from benchmarks.netlab.others import OthersWatch
from benchmarks.netlab.planning import Planned, Planner
from benchmarks.netlab.setups import Setup
from benchmarks.netlab.timings import Job, Timing, timings
from benchmarks.netlab.ways import NOTHING, PLAN
from benchmarks.netlab.worker import probe, work
from compll.cli.training.launch import run_job


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """`link_mbit` is what a link carried when it was tried; `load` the machine's before and after, `others` the share
    of its cores that other work took meanwhile. `different` are ways that gave ranks different gradients."""

    setup: Setup
    timings: Sequence[Timing]
    link_mbit: float
    load: tuple[float, float]
    others: float
    rounds: int
    planned: Planned | None = None
    different: tuple[str, ...] = ()
    left_out: dict[str, str] = field(default_factory=dict)

    def of(self, way: str) -> Timing | None:
        return next((timing for timing in self.timings if timing.way == way), None)

    def link_ms(self, timing: Timing) -> float:
        """How long the link alone needs for what the way sends."""
        return max(0.0, 8e3 * (1e6 * timing.sent_mb - burst(self.setup.rate)) / bits_per_second(self.setup.rate))

    def as_json(self) -> dict[str, Any]:
        return {
            "network": self.setup.label, "workers": self.setup.workers, "link_mbit": self.link_mbit,
            "load": list(self.load), "others": self.others, "rounds": self.rounds,
            "ways": [timing.as_json() | {"link_ms": self.link_ms(timing)} for timing in self.timings],
            "predicted_ms": dict(self.planned.predicted) if self.planned else {},
            "plan": {"routes": dict(self.planned.routes), "predicted_ms": self.planned.plan_ms} if self.planned else {},
            "different": list(self.different), "left_out": self.left_out,
        }  # fmt: skip


def measure(job: Job, planner: Planner) -> Network:
    """Build the network of `job.setup`, measure, take it down. Raises CompllError when a rank fails."""
    before = os.getloadavg()[0]
    setup, planned, left_out = job.setup, None, {}
    with open_lab(setup.machines) as lab:
        lab.shape(setup.rate)
        job = job.on(tuple(machine.path for machine in lab.machines))
        link = next(iter(run_job(job, probe)))
        if PLAN in job.ways:
            try:
                planned = planner.plan(lab, setup)
                job = job.with_plan(str(planned.plan))
            except RuntimeError as problem:
                left_out[PLAN] = str(problem)
                job = job.without(PLAN)
        watch = OthersWatch()
        steps = sorted(run_job(job, work), key=lambda s: s.rank)
        others = watch.share()
    return Network(
        setup=setup, timings=_in_order(timings(steps, NOTHING), job.ways), link_mbit=link / 1e6,
        load=(before, os.getloadavg()[0]), others=others, rounds=job.rounds, planned=planned, left_out=left_out,
        different=tuple(dict.fromkeys(way for s in steps for way in s.different)),
    )  # fmt: skip


def _in_order(found: Sequence[Timing], ways: Sequence[str]) -> list[Timing]:
    return sorted(found, key=lambda timing: ways.index(timing.way))
