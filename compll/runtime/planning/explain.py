"""Why a plan is as it is: for every gradient, what the other ways would cost. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from compll.runtime.plan import Plan, Route
from compll.runtime.planning.jobs import Gradient
from compll.runtime.planning.prediction import Predictor
from compll.runtime.planning.search import alternatives


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """One gradient: `steps` has, for each strategy, the step in seconds if only this gradient went that way, in its
    best number of partitions; `compute_s` and `wire_s` are what its route costs alone."""

    gradient: Gradient
    route: Route
    steps: Mapping[str, float]
    compute_s: float
    wire_s: float

    @property
    def why(self) -> str:
        """In a few words."""
        own = self.steps[self.route.strategy]
        others = {name: step - own for name, step in self.steps.items() if name != self.route.strategy}
        if not others:
            return "there is no other way"
        name = min(others, key=lambda n: (others[n], n))
        if others[name] == 0:
            return f"{name} would gain nothing"
        if others[name] > 0:
            return f"{name} would take {1e3 * others[name]:.3f} ms longer"
        return f"{name} would gain {-1e3 * others[name]:.3f} ms, which the search passed over"

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.gradient.name, "shape": list(self.gradient.shape), "bucket": self.gradient.bucket,
            "strategy": self.route.strategy, "parts": self.route.parts, "why": self.why,
            "compute_ms": 1e3 * self.compute_s, "wire_ms": 1e3 * self.wire_s,
            "step_ms": {name: 1e3 * step for name, step in self.steps.items()},
        }  # fmt: skip


def explain(predictor: Predictor, plan: Plan, strategies: Sequence[str]) -> Iterator[Reason]:
    """A reason for every gradient, in bucket order."""
    for bucket in predictor.job.buckets:
        for gradient in bucket:
            yield _reason(predictor, plan, gradient, strategies)


def _reason(predictor: Predictor, plan: Plan, gradient: Gradient, strategies: Sequence[str]) -> Reason:
    own = plan.routes[gradient.name]
    steps: dict[str, float] = {}
    for route in {own: None, **dict.fromkeys(alternatives(gradient, strategies))}:
        if route.strategy == own.strategy and route != own:
            continue
        step = predictor.step({**plan.routes, gradient.name: route})[0]
        steps[route.strategy] = min(step, steps.get(route.strategy, step))
    works = predictor.alone(gradient, own)
    return Reason(
        gradient=gradient, route=own, steps=steps,
        compute_s=sum(w.compute for w in works), wire_s=sum(w.wire for w in works),
    )  # fmt: skip
