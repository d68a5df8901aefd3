"""What a plan makes of a step: its time, what of the exchange is exposed, what backward hides. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from compll.runtime.plan import Route
from compll.runtime.planning.costs import Costs
from compll.runtime.planning.jobs import Gradient, Job, part_shapes
from compll.runtime.planning.messages import bucket_messages, plain_message, pool_messages
from compll.runtime.planning.timeline import Arrival, Interval, Trace, run
from compll.runtime.planning.work import Message, Work, bare_work, work

Routes = Mapping[str, Route]


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """Seconds, but for `overlap`: which share of the time in which either lane is busy lies before backward's end.

    `exposed_s` is how long after backward the last gradient is there; `compute_s` and `wire_s` are the lanes' work.
    """

    step_s: float
    exposed_s: float
    overlap: float
    compute_s: float
    wire_s: float


class Predictor:
    """Predicts plans of one job at given costs; what does not change from plan to plan is worked out once."""

    def __init__(self, job: Job, costs: Costs) -> None:
        self.job = job
        self.costs = costs
        self._buckets = [[g for g in bucket if g.compressible] for bucket in job.buckets]
        self._ready = [max(g.ready_s for g in bucket) for bucket in job.buckets]
        self._pooled = [g for bucket in job.buckets for g in bucket if not g.compressible]
        self._sizes: dict[tuple[tuple[int, ...], str, int], int] = {}
        self._works: dict[Message, Work] = {}
        self._arrivals: dict[tuple[int, tuple[Route, ...]], list[Arrival]] = {}

    def predict(self, routes: Routes) -> Prediction:
        """Of the plan with these routes, one for every gradient of the job."""
        return self._prediction(self._run(self._planned(routes)))

    def plain(self, strategy: str) -> Prediction:
        """Of plain DDP, without compll: one all-reduce for each bucket; `strategy` is `dense` or `dense-bf16`."""
        messages = [plain_message(bucket, strategy) for bucket in self.job.buckets]
        ready = zip(self._ready, messages, strict=True)
        return self._prediction(self._run([Arrival(ready=when, work=bare_work(m, self.costs)) for when, m in ready]))

    def step(self, routes: Routes) -> tuple[float, float]:
        """Of a plan: the step, and all work of both lanes, in seconds."""
        arrivals = self._planned(routes)
        work_s = sum(a.work.compute + a.work.wire for a in arrivals)
        trace = self._run(arrivals)
        return max(trace.backward, trace.end) + self.job.rest_s, work_s

    def work(self, message: Message) -> Work:
        """The rounds of a message."""
        if message not in self._works:
            self._works[message] = work(message, self.costs)
        return self._works[message]

    def alone(self, gradient: Gradient, route: Route) -> list[Work]:
        """What the gradient would do with nothing else in its messages."""
        return [self.work(m) for m in bucket_messages([gradient], [route], self.payload)]

    def payload(self, gradient: Gradient, parts: int) -> int:
        """Bytes of all payloads of a gradient cut into `parts`."""
        key = (gradient.shape, gradient.dtype, parts)
        if key not in self._sizes:
            shapes = part_shapes(gradient.shape, parts)
            self._sizes[key] = sum(self.costs.payload_bytes(shape, gradient.dtype) for shape in shapes)
        return self._sizes[key]

    def _planned(self, routes: Routes) -> list[Arrival]:
        """The messages of a plan in the order of their units."""
        arrivals: list[Arrival] = []
        for number, bucket in enumerate(self._buckets):
            key = (number, tuple(routes[g.name] for g in bucket))
            if key not in self._arrivals:
                messages = bucket_messages(bucket, key[1], self.payload)
                self._arrivals[key] = [Arrival(ready=self._ready[number], work=self.work(m)) for m in messages]
            arrivals += self._arrivals[key]
        pools = pool_messages(self._pooled, routes)
        return [*arrivals, *(Arrival(ready=max(self._ready), work=self.work(m)) for m in pools)]

    def _run(self, arrivals: Sequence[Arrival]) -> Trace:
        return run(arrivals, self.job.backward_s, self.costs.compute.sharing, self.costs.topology.crowding)

    def _prediction(self, trace: Trace) -> Prediction:
        backward = trace.backward
        busy = sorted(i for i in (*trace.compute, *trace.wire) if i[1] > i[0])
        everything = _union(busy)
        hidden = _union((start, min(stop, backward)) for start, stop in busy if start < backward)
        return Prediction(
            step_s=max(backward, trace.end) + self.job.rest_s,
            exposed_s=max(0.0, trace.end - backward),
            overlap=hidden / everything if everything else 1.0,
            compute_s=sum(stop - start for start, stop in trace.compute),
            wire_s=sum(stop - start for start, stop in trace.wire),
        )


def _union(intervals: Iterable[Interval]) -> float:
    """The length of the union of intervals that are sorted by their starts."""
    covered, reached = 0.0, float("-inf")
    for start, stop in intervals:
        covered += max(0.0, stop - max(start, reached))
        reached = max(reached, stop)
    return covered
