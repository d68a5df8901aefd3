"""The best plan for a job at given costs, by the model's own step time. Pure, deterministic.

It starts from the best plans in which all gradients go alike, and changes routes where that shortens the step. Equal
gradients of a bucket (shape, dtype) go alike, so that names do not matter. Among plans of equal time the one that loses
least wins: dense before bf16 before compressed; what backward hides anyway is not compressed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from compll.runtime.plan import COMPRESSED, DENSE, Plan, Route
from compll.runtime.planning.jobs import Gradient, Job
from compll.runtime.planning.prediction import Predictor

#: Into how many partitions a gradient may be cut, and how many elements each must have.
PARTS = (1, 2, 4, 8, 16)
LEAST_PART = 1 << 16

#: From how many of the uniform plans the search starts, and how often it goes through all gradients at most.
STARTS = 2
SWEEPS = 3

DENSE_ROUTE = Route(strategy="dense")
HALF_ROUTE = Route(strategy="dense-bf16")

Group = tuple[Gradient, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A plan and its step in seconds; `key` is what the search minimises: time, then loss of precision, then work."""

    routes: Mapping[str, Route]
    step_s: float
    key: tuple[float, int, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Uniform:
    """A plan in which all gradients that can be compressed go one way; `strategy` may be a dense one."""

    strategy: str
    parts: int
    found: Found


def search(predictor: Predictor, strategies: Sequence[str]) -> Plan:
    """The best plan; `strategies` are those of COMPRESSED that the compressor and the ranks allow.

    Never worse than the best of `uniform_plans`, by the model.
    """
    starts = sorted((u.found for u in uniform_plans(predictor, strategies)), key=lambda found: found.key)[:STARTS]
    ends = [_descend(predictor, start, strategies) for start in starts]
    return Plan(routes=min(ends, key=lambda found: found.key).routes)


def uniform_plans(
    predictor: Predictor, strategies: Sequence[str], parts: Sequence[int] = PARTS
) -> list[Uniform]:
    """For each strategy, dense ones first, its best plan in which everything goes alike, in one of `parts`."""
    plans = []
    for name in (*DENSE, *(s for s in COMPRESSED if s in strategies)):
        counts = (1,) if name in DENSE else parts
        options = [Uniform(strategy=name, parts=p, found=_uniform(predictor, name, p)) for p in counts]
        plans.append(min(options, key=lambda u: (u.found.step_s, u.parts)))
    return plans


def alternatives(gradient: Gradient, strategies: Sequence[str]) -> tuple[Route, ...]:
    """Every route that the gradient may take, the harmless ones first."""
    routes = [DENSE_ROUTE] if gradient.dtype in ("float16", "bfloat16") else [DENSE_ROUTE, HALF_ROUTE]
    if gradient.compressible:
        names = [s for s in COMPRESSED if s in strategies]
        routes += [Route(strategy=s, parts=p) for s in names for p in PARTS if _divides(gradient, p)]
    return tuple(routes)


def _divides(gradient: Gradient, parts: int) -> bool:
    return parts == 1 or (parts <= gradient.shape[0] and gradient.numel >= parts * LEAST_PART)


def _uniform(predictor: Predictor, name: str, parts: int) -> Found:
    routes = {g.name: _uniform_route(g, name, parts) for g in predictor.job.gradients}
    return _found(predictor, routes)


def _uniform_route(gradient: Gradient, name: str, parts: int) -> Route:
    if name in DENSE:
        return HALF_ROUTE if name == HALF_ROUTE.strategy and gradient.dtype == "float32" else DENSE_ROUTE
    if not gradient.compressible:
        return DENSE_ROUTE
    return Route(strategy=name, parts=max(p for p in PARTS if p <= parts and _divides(gradient, p)))


def _found(predictor: Predictor, routes: Mapping[str, Route]) -> Found:
    step, work = predictor.step(routes)
    lost = sum(g.numel * _loss(routes[g.name]) for g in predictor.job.gradients)
    return Found(routes=routes, step_s=step, key=(step, lost, work))


def _loss(route: Route) -> int:
    return 2 if route.compressed else int(route == HALF_ROUTE)


def _descend(predictor: Predictor, start: Found, strategies: Sequence[str]) -> Found:
    """Change the routes of one group after the other, largest first, until nothing helps."""
    best = start
    for _ in range(SWEEPS):
        before = best
        for group in _groups(predictor.job):
            best = _improve(predictor, best, group, strategies)
        if best is before:
            break
    return best


def _improve(predictor: Predictor, best: Found, group: Group, strategies: Sequence[str]) -> Found:
    """The best strategy for a group, then the best number of partitions for that strategy."""
    routes = alternatives(group[0], strategies)
    whole = [_changed(predictor, best, group, route) for route in routes if route.parts == 1]
    best = min([best, *whole], key=lambda found: found.key)
    chosen = best.routes[group[0].name].strategy
    split = [_changed(predictor, best, group, r) for r in routes if r.strategy == chosen and r.parts > 1]
    return min([best, *split], key=lambda found: found.key)


def _changed(predictor: Predictor, found: Found, group: Group, route: Route) -> Found:
    return _found(predictor, {**found.routes, **{g.name: route for g in group}})


def _groups(job: Job) -> Iterator[Group]:
    """The gradients that go alike, most elements first: equal shape and dtype in one bucket; all of a dtype that cannot
    be compressed, which travel in one pool."""
    found: dict[tuple[object, ...], list[Gradient]] = {}
    for gradient in job.gradients:
        kind = (gradient.bucket, gradient.shape) if gradient.compressible else None
        found.setdefault((gradient.dtype, kind), []).append(gradient)
    groups = sorted(found.values(), key=lambda g: (-sum(x.numel for x in g), g[0].bucket, min(x.shape for x in g)))
    return (tuple(group) for group in groups)
