"""A rank's recent steps as a timeline: JSON in the Chrome trace format, for chrome://tracing or Perfetto.

One process for each rank, with three tracks: `backward` (from one bucket to the next), `compute` (encode, merge,
decode) and `wire` (from a collective's start to its completion; several may be on their way at once). Times are wall
clock in microseconds, so that the ranks of one machine can be laid side by side.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Any

from compll.runtime.stats import Span, StepClock
from compll.runtime.tasks import Kind

TRACKS = ("backward", "compute", "wire")
NAMED = 3  # gradients in an event's name; its arguments have all

Event = dict[str, Any]


def chrome_trace(rank: int, clocks: Iterable[StepClock]) -> dict[str, Any]:
    """{"traceEvents": [...], "displayTimeUnit": "ms"}; several ranks' events may be joined into one list."""
    to_wall = time.time() - time.perf_counter()
    events = list(_tracks(rank))
    for clock in clocks:
        step = clock.step
        events += _backward(rank, step, clock, to_wall)
        for span, numels in clock.spans:
            events += _task(rank, step, span, [name for name, _ in numels], to_wall)
    return {"traceEvents": events, "displayTimeUnit": "ms"}


def _tracks(rank: int) -> Iterator[Event]:
    yield {"ph": "M", "name": "process_name", "pid": rank, "args": {"name": f"rank {rank}"}}
    for number, track in enumerate(TRACKS):
        yield {"ph": "M", "name": "thread_name", "pid": rank, "tid": number, "args": {"name": track}}


def _backward(rank: int, step: int, clock: StepClock, to_wall: float) -> Iterator[Event]:
    """What came before the first bucket is not seen from here: it has no length."""
    before = clock.ready[0][0]
    for bucket, (ready, names) in enumerate(clock.ready):
        args = {"step": step, "bucket": bucket, "gradients": names}
        yield _event(rank, "backward", _label("backward", names), before + to_wall, ready + to_wall, args)
        before = ready


def _task(rank: int, step: int, span: Span, names: list[str], to_wall: float) -> Iterator[Event]:
    names = list(dict.fromkeys(names))
    args = {"step": step, "unit": span.unit, "strategy": span.strategy, "gradients": names}
    start, end = span.start + to_wall, span.end + to_wall
    if span.kind.computes:
        yield _event(rank, "compute", _label(span.kind.value, names), start, end, args)
    elif span.kind is Kind.SEND:
        yield _event(rank, "wire", _label("send", names), start, end, args)
    else:  # these overlap, which plain events of one track must not
        common = {"cat": "wire", "id": f"{rank}.{step}.{span.unit}.{start}", "pid": rank, "tid": TRACKS.index("wire")}
        name = _label("recv", names)
        yield {"ph": "b", "name": name, "ts": 1e6 * start, "args": args, **common}
        yield {"ph": "e", "name": name, "ts": 1e6 * end, **common}


def _event(rank: int, track: str, name: str, start: float, end: float, args: dict[str, Any]) -> Event:
    return {
        "ph": "X", "cat": track, "name": name, "pid": rank, "tid": TRACKS.index(track), "ts": 1e6 * start,
        "dur": 1e6 * (end - start), "args": args,
    }  # fmt: skip


def _label(what: str, names: list[str]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"{what} {', '.join(names[:NAMED])}{more}"
