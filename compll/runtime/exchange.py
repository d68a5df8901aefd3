"""What two ranks send each other on Gloo, both at once.

Gloo has one connection between two ranks, on which a message waits for the word that the other side is ready to
receive; that word may not pass what the other side is sending. Its collectives send first and then say the word, so
that the two messages travel one after the other. Here receiving comes first, and they travel at the same time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from threading import Event
from typing import Any

import torch
import torch.distributed as dist

from compll.runtime.arrivals import Arrivals


class Exchange:
    """Between this rank and the other one of a `group` of two, which is `other` in it; both call `begin` in the same
    order with sizes that match. A thread waits for what was begun, since torch has no futures for it."""

    def __init__(self, group: Any, other: int) -> None:
        self._group, self._other = group, other
        self._arrivals = Arrivals("compll-exchange", nullcontext)

    def begin(self, output: torch.Tensor, source: torch.Tensor, done: Callable[[], None]) -> Exchanging:
        """`source` to the other rank, `output` from it; either may be empty. `done` is called on some thread."""
        works = [dist.irecv(output, group=self._group, group_src=self._other)] if output.numel() else []
        if source.numel():
            works.append(dist.isend(source, group=self._group, group_dst=self._other))
        exchanging = Exchanging(works, done)
        self._arrivals.expect(exchanging.finish, exchanging.finished)
        return exchanging

    def close(self) -> None:
        """Wait a few seconds for what was begun, no longer, and let go of the group."""
        self._arrivals.close()
        self._group = None


class Exchanging:
    """A message and its answer on their way: the handle of an exchange."""

    def __init__(self, works: Sequence[Any], done: Callable[[], None]) -> None:
        self._works, self._done = works, done
        self._over = Event()
        self._problem: Exception | None = None

    def finish(self) -> None:
        """For the thread that waits: an operation may be waited for once only."""
        for work in self._works:
            work.wait()

    def finished(self, problem: Exception | None) -> None:
        self._problem, self._works = problem, ()
        self._over.set()
        self._done()

    def wait(self) -> None:
        """As of any handle (`collectives.Handle`)."""
        self._over.wait()
        if self._problem is not None:
            raise self._problem
