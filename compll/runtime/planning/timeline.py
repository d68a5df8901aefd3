"""When everything of a step happens: backward, one thread that computes, one wire. Pure, deterministic.

The wire carries collectives one at a time, in the order of the runtime: round r of message n by (n + r, descending n).
The thread computes in the same order; what ends a message may wait `lag` messages longer. The runtime takes what is
ready, so that the prediction is the best of a few lags. In a fixed order every time can only grow with any duration,
and so does their minimum: a faster link never makes a prediction worse.

Backward and the thread slow each other down where they do not have cores of their own, and both what is on the wire.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate

from compll.runtime.planning.work import Work

#: By how many messages the last decode of one waits for later encodes: not at all, for the next, for all.
LAGS = (-1.0, 1.0, math.inf)

#: Two that share a core need no longer than one after the other; where they did, a later message would end sooner.
TAKING_TURNS = 2.0

Interval = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """A message: when its gradients would be ready if backward were alone, in seconds, and what is to be done."""

    ready: float
    work: Work


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """Intervals of the two lanes in seconds, in order; when the last message was done, and when backward was."""

    compute: tuple[Interval, ...]
    wire: tuple[Interval, ...]
    end: float
    backward: float


def run(arrivals: Sequence[Arrival], backward: float = 0.0, sharing: float = 1.0, crowding: float = 1.0) -> Trace:
    """The timeline of messages in plan order, in the order of LAGS that ends first.

    `backward` is its seconds when alone; `sharing`, how many times slower it and the thread are beside each other, of
    which TAKING_TURNS counts at most; `crowding`, how many times slower the wire is beside either.
    """
    counts = tuple(len(a.work.rounds) for a in arrivals)
    step = _Step(
        ready=[a.ready for a in arrivals],
        computing=[seconds for a in arrivals for seconds in (*(r.compute for r in a.work.rounds), a.work.finish)],
        sending=[seconds for a in arrivals for seconds in (*(r.wire for r in a.work.rounds), 0.0)],
        backward=max([backward, *(a.ready for a in arrivals)]),
        sharing=min(sharing, TAKING_TURNS),
        crowding=crowding,
    )
    return min((_run(step, _order(counts, lag)) for lag in LAGS), key=lambda trace: trace.end)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    """By message when its gradients are ready; by task its computation and what the wire does after it."""

    ready: Sequence[float]
    computing: Sequence[float]
    sending: Sequence[float]
    backward: float
    sharing: float
    crowding: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Order:
    """What the thread and the wire do, in order. Tasks are numbered message by message, round by round; the last one of
    a message has no collective. `firsts` are the messages' first tasks."""

    thread: tuple[int, ...]
    wire: tuple[int, ...]
    firsts: tuple[int, ...]


@lru_cache(maxsize=4096)
def _order(counts: tuple[int, ...], lag: float) -> _Order:
    firsts = tuple(accumulate((count + 1 for count in counts), initial=0))[:-1]
    rounds = [(n + r, -n, firsts[n] + r) for n, count in enumerate(counts) for r in range(count)]
    rounds.sort()
    ends = [(n + count + lag, True, n, firsts[n] + count) for n, count in enumerate(counts)]
    thread = sorted([*((wave, False, order, task) for wave, order, task in rounds), *ends])
    return _Order(
        thread=tuple(task for *_, task in thread), wire=tuple(task for *_, task in rounds), firsts=firsts
    )


def _run(step: _Step, order: _Order) -> Trace:
    arrived = [math.inf] * len(step.computing)  # not yet
    ready = dict(zip(order.firsts, step.ready, strict=True))
    computed = [0.0] * len(step.computing)
    compute: list[Interval] = []
    wire: list[Interval] = []
    sends = iter(order.wire)
    now = wire_free = lost = 0.0  # `lost`: by how much the thread has delayed backward
    for task in order.thread:
        if task in ready:
            arrived[task] = ready[task] + lost
        while arrived[task] == math.inf:  # what the collectives up to the awaited one send has been computed by now
            sent = next(sends)
            start = max(wire_free, computed[sent])
            busy = max(0.0, max(now, step.backward + lost) - start)
            arrived[sent + 1] = wire_free = start + _crowded(step.sending[sent], busy, step.crowding)
            wire.append((start, wire_free))
        start = max(now, arrived[task])
        beside = min(step.computing[task], max(0.0, step.backward + lost - start))
        lost += (step.sharing - 1) * beside
        computed[task] = now = start + step.computing[task] + (step.sharing - 1) * beside
        compute.append((start, now))
    return Trace(compute=tuple(compute), wire=tuple(wire), end=now, backward=step.backward + lost)


def _crowded(seconds: float, busy: float, crowding: float) -> float:
    """What the wire takes that is slower as long as its ranks are `busy`."""
    return seconds + min(seconds, busy / crowding) * (crowding - 1)
