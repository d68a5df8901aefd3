"""How long something usually takes, alone or while its process computes something else."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread

import torch

WARM_UP = 2
REPEATS = 7

#: A block of runs takes so long: several turns of a scheduler.
BLOCK_S = 1e-2
MOST_RUNS = 1000

#: Elements that a companion copies again and again, more than caches hold.
COMPANION = 1 << 23

#: So many gradients take turns, or fewer that together are larger than caches, in bytes.
MOST_COPIES = 64
COLD_BYTES = 1 << 28

Timed = Callable[[], object]


def nothing() -> None:
    """Takes no time."""


def typical(work: Timed, repeats: int, device: str = "cpu", before: Timed = nothing, runs: int = 0) -> float:
    """Seconds of one run: of `repeats` blocks the median of their means, after a warm-up.

    Where threads share cores, something short is either not interrupted at all or for long, so that only the mean of
    several says what a step pays. A block has `runs` in a row; 0: so many that it takes BLOCK_S. `before` is run before
    each block and not counted.
    """

    def block(count: int) -> float:
        before()
        start = time.perf_counter()
        for _ in range(count):
            work()
            if device != "cpu":
                torch.cuda.synchronize()
        return (time.perf_counter() - start) / count

    last = [block(1) for _ in range(WARM_UP)][-1]
    count = runs or min(MOST_RUNS, math.ceil(BLOCK_S / max(last, BLOCK_S / MOST_RUNS)))
    return statistics.median(block(count) for _ in range(repeats))


@contextmanager
def companion(threads: int) -> Iterator[None]:
    """A thread of this process that moves memory until the end, as backward does beside the runtime's own thread; like
    them, it has so many threads to help it."""
    source, target, over = torch.zeros(COMPANION), torch.zeros(COMPANION), Event()

    def copy() -> None:
        torch.set_num_threads(threads)
        while not over.is_set():
            target.copy_(source)

    thread = Thread(target=copy, name="compll-companion", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def times_longer(seconds: Callable[[], float], threads: int, repeats: int, together: Timed = nothing) -> float:
    """How many times longer something that times itself takes beside a companion, at least 1: the median of `repeats`
    ratios, each of one alone and one beside. Ranks meet `together` before both, so that none is alone while another is
    not."""

    def ratio() -> float:
        together()
        alone = seconds()
        together()
        with companion(threads):
            return seconds() / alone

    return max(1.0, statistics.median(ratio() for _ in range(repeats)))


def cold_copies(size: int) -> int:
    """How many gradients of `size` elements take turns, each with a copy: more than caches hold, or MOST_COPIES."""
    return max(1, min(MOST_COPIES, COLD_BYTES // (8 * size)))
