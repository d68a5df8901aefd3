"""Timing in turns: everybody runs once in every round, and a copy before each, so that a busy machine is busy for all.

Knows no compressor.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter

import torch

#: Who has had this much time leaves after FEWEST rounds: a slow one must not make everybody wait.
SECONDS = 12.0
FEWEST = 5

#: Small ones run several steps at a time, about this many elements: one alone is shorter than a clock can tell.
ELEMENTS = 1 << 20
MOST_REPEATS = 64


@dataclass(frozen=True, slots=True)
class Contestant:
    """`step(i)` does its work on the gradients of step i."""

    name: str
    step: Callable[[int], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Milliseconds of one step: the median and the quartiles of `samples` measurements."""

    ms: float
    low: float
    high: float
    samples: int


Clock = Callable[[Callable[[], None]], float]


def host_clock(action: Callable[[], None]) -> float:
    """Seconds that the caller waits."""
    start = perf_counter()
    action()
    return perf_counter() - start


def cuda_clock(action: Callable[[], None]) -> float:
    """Seconds between two events on the current stream."""
    torch.cuda.synchronize()
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    action()
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end)) / 1e3


def clock_of(device: torch.device) -> Clock:
    return cuda_clock if device.type == "cuda" else host_clock


def compete(
    contestants: Sequence[Contestant], copy: Contestant, *, rounds: int, clock: Clock, repeats: int = 1, first: int = 0
) -> dict[str, Timing]:
    """The timings by name, the copy's among them; the order changes from round to round. Steps count from `first`."""
    samples: dict[str, list[float]] = {c.name: [] for c in (copy, *contestants)}
    for number in range(rounds):
        turn = number % max(1, len(contestants))
        start = first + number * repeats
        for contestant in (*contestants[turn:], *contestants[:turn]):
            mine = samples[contestant.name]
            if len(mine) >= FEWEST and sum(mine) * repeats > SECONDS:
                continue
            for each in (copy, contestant):
                samples[each.name].append(clock(lambda: _run(each, start, repeats)) / repeats)
    return {name: summary(seconds) for name, seconds in samples.items() if seconds}


def _run(contestant: Contestant, start: int, repeats: int) -> None:
    for step in range(start, start + repeats):
        contestant.step(step)


def repeats_for(numel: int) -> int:
    """How many steps one measurement takes."""
    return max(1, min(MOST_REPEATS, ELEMENTS // numel))


def summary(seconds: Sequence[float]) -> Timing:
    """Median and quartiles."""
    if len(seconds) == 1:
        low = middle = high = seconds[0]
    else:
        low, middle, high = statistics.quantiles(seconds, n=4, method="inclusive")
    return Timing(ms=middle * 1e3, low=low * 1e3, high=high * 1e3, samples=len(seconds))
