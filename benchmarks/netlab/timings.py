"""What workers are told and what they report, and medians of it."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from benchmarks.netlab.setups import Setup


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Everything a worker needs: `namespaces` are paths, one for each machine; `plan` a path or None."""

    setup: Setup
    ways: tuple[str, ...]
    rounds: int
    warm_up: int
    layers: int
    width: int
    threads: int
    namespaces: tuple[str, ...] = ()
    plan: str | None = None
    store: str = ""
    timeout_s: float = 300.0

    @property
    def workers(self) -> int:
        return self.setup.workers

    def on(self, namespaces: tuple[str, ...]) -> Job:
        return replace(self, namespaces=namespaces)

    def with_plan(self, plan: str) -> Job:
        return replace(self, plan=plan)

    def without(self, way: str) -> Job:
        return replace(self, ways=tuple(other for other in self.ways if other != way))

    def label(self, run: int) -> str:
        return f"way `{self.ways[run]}` on {self.setup.label}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """One rank's measured steps of each way: seconds, and bytes that its machine sent over its link. `different` are
    ways whose gradients were not the same bits on all ranks."""

    rank: int
    seconds: Mapping[str, Sequence[float]]
    sent: Mapping[str, Sequence[int]]
    different: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """A way on a network: the median over rounds, quartiles and the least of the slowest rank's step."""

    way: str
    step_ms: float
    low_ms: float
    high_ms: float
    least_ms: float
    sync_ms: float
    sent_mb: float

    def as_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}


def timings(steps: Sequence[Steps], nothing: str) -> list[Timing]:
    """Of all ranks' steps. Synchronisation is what a step takes beyond one of the way `nothing`."""
    ways = list(steps[0].seconds)
    slowest = {way: [max(times) for times in zip(*(s.seconds[way] for s in steps))] for way in ways}
    alone = statistics.median(slowest[nothing]) if nothing in slowest else 0.0
    return [_timing(way, slowest[way], alone, [s.sent[way] for s in steps]) for way in ways]


def _timing(way: str, times: Sequence[float], alone: float, sent: Sequence[Sequence[int]]) -> Timing:
    low, middle, high = statistics.quantiles(times, n=4, method="inclusive") if len(times) > 1 else 3 * list(times)
    return Timing(
        way=way, step_ms=1e3 * middle, low_ms=1e3 * low, high_ms=1e3 * high, least_ms=1e3 * min(times),
        sync_ms=1e3 * max(0.0, middle - alone), sent_mb=max(statistics.fmean(counts) for counts in sent) / 1e6,
    )  # fmt: skip
