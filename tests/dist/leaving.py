"""Ranks that fail where they cannot say so, or leave: the others hear of it at once, whatever they do at the time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
import torch.distributed as dist
from apart import AT_ONCE_S, raises_at_once
from harness import BACKEND, Ranks, backward, given_model, wanted
from torch.nn.parallel import DistributedDataParallel

import compll
from compll import SyncState
from compll.runtime.routing import Routing

LOST = "failed on rank [0-9] in step 2 while"


def warm(ranks: Ranks, **options: Any) -> tuple[DistributedDataParallel, SyncState]:
    """After two steps, in which DDP has formed its buckets for good."""
    ddp = ranks.ddp(given_model(), bucket_cap_mb=0.004)
    sync = compll.attach(ddp, "topk", backend=BACKEND, **options)
    for step in range(2):
        backward(ddp, wanted(ranks.rank, step))
    return ddp, sync


@contextmanager
def opening_fails_on(ranks: Ranks, unlucky: int) -> Iterator[None]:
    """The second bucket cannot be opened on this rank."""
    open_bucket = Routing.open

    def fail(self: Routing, bucket: int, *arguments: Any, **options: Any) -> Any:
        if bucket == 1:
            raise MemoryError("out of paper")
        return open_bucket(self, bucket, *arguments, **options)

    with pytest.MonkeyPatch.context() as patch:
        if ranks.rank == unlucky:
            patch.setattr(Routing, "open", fail)
        yield


def a_bucket_that_cannot_be_opened_ends_all(ranks: Ranks) -> None:
    for strategy in ("allgather", "ring"):
        # a group for each: DDP's own collectives are out of step afterwards
        apart = Ranks(ranks.rank, ranks.world, dist.new_group(), None)
        ddp, sync = warm(apart, strategy=strategy)
        with opening_fails_on(ranks, 0), raises_at_once("out of paper" if ranks.rank == 0 else LOST, LOST):
            backward(ddp, wanted(ranks.rank, 2))
        sync.close()


def groups_that_stay_end_too(ranks: Ranks) -> None:
    """A group of a part of all ranks is not destroyed, nor is one that was given; who waits there hears it anyway."""
    part, spare = dist.new_group([0, 1]), dist.new_group([0, 1])
    if ranks.rank == 2:
        return
    for own in (None, spare):
        ddp, sync = warm(Ranks(ranks.rank, 2, part, None), process_group=own)
        with opening_fails_on(ranks, 1), raises_at_once("out of paper" if ranks.rank == 1 else LOST, LOST):
            backward(ddp, wanted(ranks.rank, 2))
        sync.close()
        part = dist.new_group([0, 1], use_local_synchronization=True)


def raising_in_the_first(problem: BaseException) -> Callable[[torch.Tensor], None]:
    def end(_: torch.Tensor) -> None:
        raise problem

    return end


def a_rank_that_raises_between_buckets_and_leaves(ranks: Ranks) -> None:
    for problem in (ValueError("the dog ate the batch"), KeyboardInterrupt()):
        apart = Ranks(ranks.rank, ranks.world, dist.new_group(), None)
        ddp, sync = warm(apart)
        if ranks.rank == 0:
            ddp.module.get_parameter("first").register_hook(raising_in_the_first(problem))
            with pytest.raises(type(problem)):
                backward(ddp, wanted(ranks.rank, 2))
        else:
            with raises_at_once(LOST):
                backward(ddp, wanted(ranks.rank, 2))
        begin = time.perf_counter()
        sync.close()
        assert time.perf_counter() - begin < AT_ONCE_S


def one_rank_closes_between_steps(ranks: Ranks) -> None:
    ddp, sync = warm(ranks)
    if ranks.rank == 0:
        sync.close()
        sync.close()
        with pytest.raises(RuntimeError, match="this SyncState is closed"):
            backward(ddp, wanted(ranks.rank, 2))
    else:
        with raises_at_once(LOST):
            backward(ddp, wanted(ranks.rank, 2))


def who_leaves_does_not_wait_for_who_is_late(ranks: Ranks) -> None:
    """What it had begun with them is given up, and they hear of it when they come."""
    ddp, sync = warm(ranks)
    begin = time.perf_counter()
    if ranks.rank == 0:
        ddp.module.get_parameter("first").register_hook(raising_in_the_first(ValueError("the dog ate the batch")))
        with pytest.raises(ValueError, match="the dog"):
            backward(ddp, wanted(ranks.rank, 2))
        sync.close()
        assert time.perf_counter() - begin < 4.0, "the thread that waits was given a few seconds"
    else:
        time.sleep(6.0)
        with raises_at_once(LOST):
            backward(ddp, wanted(ranks.rank, 2))


def a_message_that_cannot_be_sent_ends_both(ranks: Ranks) -> None:
    """The receive before it has been posted."""
    ddp, sync = warm(ranks)
    with pytest.MonkeyPatch.context() as patch:
        if ranks.rank == 1:
            patch.setattr(dist, "isend", lambda *given, **options: raising_in_the_first(OSError("no route"))(given[0]))
        with raises_at_once("no route" if ranks.rank == 1 else LOST, LOST):
            backward(ddp, wanted(ranks.rank, 2))
    begin = time.perf_counter()
    sync.close()
    assert time.perf_counter() - begin < AT_ONCE_S


CASES = [
    (a_bucket_that_cannot_be_opened_ends_all, 2),
    (a_bucket_that_cannot_be_opened_ends_all, 3),
    (groups_that_stay_end_too, 3),
    (a_rank_that_raises_between_buckets_and_leaves, 2),
    (a_rank_that_raises_between_buckets_and_leaves, 3),
    (one_rank_closes_between_steps, 2),
    (one_rank_closes_between_steps, 3),
    (who_leaves_does_not_wait_for_who_is_late, 2),
    (who_leaves_does_not_wait_for_who_is_late, 3),
    (a_message_that_cannot_be_sent_ends_both, 2),
]
