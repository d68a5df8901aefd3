"""Ranks that meet, as threads on one store: who raises stays until all have heard; a lost store hides no problem."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
import torch.distributed as dist

from compll import CompllError
from compll.runtime import meeting
from compll.runtime.meeting import Meeting

WORLD = 3


@dataclass
class Group:
    """What a Meeting asks of a process group."""

    rank: int
    store: Any
    _device_types: tuple[str, ...] = ("cpu",)

    def get_group_store(self) -> Any:
        return self.store


class Lost:
    """A store whose host has ended."""

    def _fail(self, *given: object) -> None:
        raise RuntimeError("broken pipe")

    set = wait = check = _fail


@pytest.fixture
def meetings(monkeypatch: pytest.MonkeyPatch) -> list[Meeting]:
    monkeypatch.setattr(dist, "get_rank", lambda group: group.rank)
    monkeypatch.setattr(dist, "get_world_size", lambda group: WORLD)
    monkeypatch.setattr(meeting, "group_timeout", lambda *group: timedelta(seconds=60))
    store = dist.HashStore()
    return [Meeting(Group(rank, store)) for rank in range(WORLD)]


def raised(meeting_: Meeting, rank: int, call: Callable[[Meeting, int], object]) -> str:
    """What a rank raises, once it is certain that all have heard."""
    with pytest.raises(CompllError) as caught:
        call(meeting_, rank)
    assert meeting_._store.check(meeting_._keys("/heard")), "somebody may take the store along"
    return str(caught.value)


def on_all(meetings: list[Meeting], call: Callable[[Meeting, int], object]) -> list[str]:
    with ThreadPoolExecutor(WORLD) as threads:
        return list(threads.map(lambda rank: raised(meetings[rank], rank, call), range(WORLD)))


def test_ranks_that_differ_leave_when_all_have_heard(meetings: list[Meeting]) -> None:
    said = on_all(meetings, lambda each, rank: each.agree("other" if rank == 1 else "same", "plan"))
    assert said == ["all ranks need the same plan; it differs between rank 0 and rank 1"] * WORLD


def test_what_one_rank_cannot_do_ends_when_all_have_heard(meetings: list[Meeting]) -> None:
    def work(rank: int) -> None:
        if rank == 2:
            raise CompllError("out of paper")

    said = on_all(meetings, lambda each, rank: each.together(lambda: work(rank)))
    assert said == ["rank 2 cannot take part: out of paper"] * 2 + ["out of paper"]


def test_a_lost_store_hides_no_problem(meetings: list[Meeting]) -> None:
    each = meetings[0]
    each._store = Lost()

    def fail() -> None:
        raise OSError("no space left on device")

    with pytest.raises(OSError, match="no space left"):
        each.together(fail)
    for call in (lambda: each.together(lambda: None), lambda: each.agree("same", "plan")):
        with pytest.raises(CompllError, match="the store of the process group is lost, .*: broken pipe"):
            call()
