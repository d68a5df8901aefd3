"""Carries out the instructions of a step on tensors and collectives. Runs on one thread; decides nothing.

What it writes goes straight into DDP's buckets. A failure ends the step, but not before its end: this rank goes on
sending messages, which say so by being empty, because a collective that only some ranks have started blocks them until
their timeout.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from compll.diagnostics import CompllError
from compll.runtime.codec import Codec
from compll.runtime.collectives import Collectives, Handle
from compll.runtime.following import Following
from compll.runtime.gradients import Slice
from compll.runtime.routing import Travel
from compll.runtime.schedule import Closed, Ended, Event, Finish, Instruction, Opened, Run
from compll.runtime.stats import Span, StepClock, Totals
from compll.runtime.streams import Streams
from compll.runtime.tasks import Kind, Task


@dataclass(slots=True, kw_only=True)
class Bucket:
    """One bucket of one step, on its way. `mark` is what was enqueued when DDP handed it out (Streams.mark), `ready`
    when that was done, on time.perf_counter."""

    index: int
    last: bool
    slices: Sequence[Slice]
    future: torch.futures.Future[torch.Tensor]
    buffer: torch.Tensor
    mark: Any = None
    ready: float = field(default_factory=time.perf_counter)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What does not change from step to step. `patience_s`: how long a collective may take, where it does not find out
    by itself that it takes too long."""

    codec: Codec
    following: Following
    collectives: Sequence[Collectives]
    streams: Streams
    start_step: int
    patience_s: float | None = None


@dataclass(slots=True)
class Flight:
    """A collective on its way."""

    start: float
    end: float = 0.0
    handle: Handle | None = None


@dataclass(slots=True)
class Progress:
    """The current step."""

    buckets: list[Bucket] = field(default_factory=list)
    travels: list[Travel] = field(default_factory=list)
    flights: dict[Ended, Flight] = field(default_factory=dict)
    failure: tuple[str, Exception] | None = None
    clock: StepClock = field(default_factory=StepClock)


class Executor:
    """`post` receives the events that instructions cause, from any thread."""

    def __init__(self, settings: Settings, post: Callable[[Ended], None]) -> None:
        self._settings = settings
        self._post = post
        self._progress = Progress()
        self.totals = Totals()
        self.doing = ""
        self.announced = False  # whether the other ranks have heard of a failure in messages of this rank

    @property
    def unfinished(self) -> list[Bucket]:
        """The buckets that DDP waits for."""
        return self._progress.buckets

    @property
    def patience(self) -> float | None:
        """How many seconds the oldest collective on its way may still take; None: whatever it takes."""
        if self._settings.patience_s is None or not self._progress.flights:
            return None
        oldest = next(iter(self._progress.flights.values()))
        return max(0.0, oldest.start + self._settings.patience_s - time.perf_counter())

    def give_up(self) -> None:
        """Forget the current step. Handles of collectives, complete or not, keep a group's connections open after its
        end, and other ranks waiting at them until their timeout."""
        self._progress = Progress()

    # --- events ------------------------------------------------------------------------------------------------------

    def accept(self, bucket: Bucket) -> Iterator[Event]:
        """Take a bucket in. Raises CompllError for one out of turn.

        What fails here cannot be announced: what this rank would send is laid out by what has failed. The others hear
        of it because their connections to this rank close (`TorchCollectives.close`).
        """
        buckets, clock = self._progress.buckets, self._progress.clock
        if bucket.index != len(buckets) or (buckets and buckets[-1].last):
            raise CompllError(
                f"bucket {bucket.index} came where {len(buckets)} was due: the backward pass before this one did not "
                "finish"
            )
        buckets.append(bucket)
        clock.ready.append((bucket.ready, [s.spec.name for s in bucket.slices]))
        self.doing = f"opening bucket {bucket.index}"
        routing = self._settings.following.routing
        compressing = self._settings.codec.step >= self._settings.start_step
        yield from self._opened(routing.open(bucket.index, bucket.slices, compressing=compressing))
        if bucket.last:
            yield from self._opened(routing.pool(s for each in buckets for s in each.slices))
            yield Closed()

    def _opened(self, travels: Iterator[Travel]) -> Iterator[Opened]:
        for travel in travels:
            self._progress.travels.append(travel)
            yield Opened(travel.graph)

    def arrived(self, event: Ended) -> None:
        """A collective is complete: make its results usable. Raises when it failed."""
        flight = self._progress.flights.pop(event)
        self._name_work("receiving", event.unit)
        handle, flight.handle = flight.handle, None  # which knows the flight, and keeps connections open
        if handle is not None:
            handle.wait()
        self._took(Kind.RECV, event.unit, flight.start, flight.end)

    # --- instructions ------------------------------------------------------------------------------------------------

    def run(self, instruction: Instruction) -> None:
        match instruction:
            case Run(unit, position):
                task = self._progress.travels[unit].graph[position]
                self._name_work(GERUNDS[task.kind], unit)
                if task.kind is Kind.SEND:
                    self._send(unit, position, task)
                elif self._progress.failure is None:
                    self._compute(unit, task)
            case Finish():
                self._finish()

    def _compute(self, unit: int, task: Task) -> None:
        begin = time.perf_counter()
        try:
            task.work()
        except Exception as problem:  # the other ranks are told by what this one does not write
            self._progress.failure = (self.doing, problem)
        self._took(task.kind, unit, begin)

    def _send(self, unit: int, position: int, task: Task) -> None:
        before = self._bytes_sent
        flight = Flight(time.perf_counter())
        arrival = Ended(unit, position + 1)
        self._progress.flights[arrival] = flight

        def arrived() -> None:
            flight.end = time.perf_counter()
            self._post(arrival)

        try:
            flight.handle = task.work(arrived)
        except Exception as problem:
            self.doing, first = self._progress.failure or (self.doing, problem)
            raise first from None
        self._progress.clock.bytes_sent += self._bytes_sent - before
        self._took(Kind.SEND, unit, flight.start)

    @property
    def _bytes_sent(self) -> int:
        return sum(collectives.bytes_sent for collectives in self._settings.collectives)

    def _finish(self) -> None:
        if self._progress.failure is not None:
            self.announced = True
            self.doing, problem = self._progress.failure
            raise problem
        codec = self._settings.codec
        self._progress.clock.step = codec.step
        codec.end_step()
        self.totals.add(self._progress.clock)
        self.doing = "making a plan"
        self._settings.following.after_step(self.totals.recent)
        progress, self._progress = self._progress, Progress()
        for bucket in progress.buckets:
            bucket.future.set_result(bucket.buffer)

    # --- helpers -----------------------------------------------------------------------------------------------------

    def _took(self, kind: Kind, unit: int, start: float, end: float = 0.0) -> None:
        travel = self._progress.travels[unit]
        span = Span(kind=kind, unit=unit, strategy=travel.strategy, start=start, end=end or time.perf_counter())
        self._progress.clock.spans.append((span, travel.numels))

    def _name_work(self, verb: str, unit: int) -> None:
        names = [f"`{name}`" for name in dict.fromkeys(name for name, _ in self._progress.travels[unit].numels)]
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        self.doing = f"{verb} {', '.join(names[:3])}{more}"


GERUNDS = {Kind.ENCODE: "encoding", Kind.MERGE: "merging", Kind.DECODE: "decoding", Kind.SEND: "sending"}
