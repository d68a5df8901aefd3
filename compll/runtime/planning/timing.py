"""How long something usually takes."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import torch

WARM_UP = 2
REPEATS = 7

Timed = Callable[[], object]


def nothing() -> None:
    """Takes no time."""


def typical(work: Timed, repeats: int, device: str = "cpu", before: Timed = nothing) -> float:
    """The median in seconds of `repeats` runs after a warm-up; `before` is run before each and not counted."""
    times = []
    for turn in range(-WARM_UP, repeats):
        before()
        start = time.perf_counter()
        work()
        if device != "cpu":
            torch.cuda.synchronize()
        if turn >= 0:
            times.append(time.perf_counter() - start)
    return statistics.median(times)
