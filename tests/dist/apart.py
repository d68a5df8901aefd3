"""Runs cases that leave their ranks out of step: each has process groups of its own, in processes that all share."""

from __future__ import annotations

import os
import re
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from harness import Outcome, Ranks

PATIENCE = timedelta(seconds=60)  # of process groups: whoever waits for as long has not heard in time
AT_ONCE_S = 20.0  # on a busy machine
MEET = timedelta(seconds=240)

#: A case checks with `assert` on every rank, in a world that is its own.
Case = Callable[[Ranks], None]


def run_apart(cases: Sequence[tuple[Case, int]], folder: Path) -> Outcome:
    """Run cases, each with its number of ranks, in order."""
    mp.spawn(_run_rank, (tuple(cases), folder), nprocs=max(world for _, world in cases))
    return Outcome(folder)


def _run_rank(rank: int, cases: Sequence[tuple[Case, int]], folder: Path) -> None:
    torch.set_num_threads(1)
    for number, (case, world) in enumerate(cases):
        if rank < world:
            _run_case(case, rank, world, folder, f"{folder}/{number}")
    sys.stderr.flush()
    os._exit(0)  # threads that a case has left behind are nobody's concern


def _run_case(case: Case, rank: int, world: int, folder: Path, meet: str) -> None:
    trace, begin = "", time.perf_counter()
    try:
        _together(f"{meet}.before", world)
        dist.init_process_group(
            "gloo", init_method=f"file://{meet}", rank=rank, world_size=world, timeout=PATIENCE
        )  # fmt: skip
        case(Ranks(rank, world, dist.group.WORLD, None))
    except BaseException:
        trace = f"rank {rank}:\n{traceback.format_exc()}"
    (folder / f"{case.__name__}.{world}.{rank}").write_text(trace)
    print(f"{case.__name__}[{rank}/{world}] {time.perf_counter() - begin:.2f} s", file=sys.stderr)
    _together(f"{meet}.after", world)
    dist.destroy_process_group()


def _together(path: str, world: int) -> None:
    """Wait until all ranks are here, without a process group."""
    store = dist.FileStore(path, world)
    if store.add("here", 1) == world:
        store.set("all", "")
    store.wait(["all"], MEET)


@contextmanager
def raises_at_once(*matches: str) -> Iterator[None]:
    """A RuntimeError or CompllError whose message has all of these, before anybody's patience is over."""
    begin = time.perf_counter()
    with pytest.raises(Exception) as caught:
        yield
    text = f"{type(caught.value).__name__}: {caught.value}"
    assert all(re.search(match, text) for match in matches), text
    assert time.perf_counter() - begin < AT_ONCE_S, text
