"""The collectives that strategies use, on process groups of their own (`groups` makes them).

Everything here is asynchronous: `done` is called on some thread when an operation has ended, well or not, and must do
no more than note it. Waiting inside such a callback deadlocks Gloo.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any, Protocol

import torch
import torch.distributed as dist

from compll.runtime.exchange import Exchange
from compll.runtime.streams import Streams

log = logging.getLogger("compll")

#: Under its new name where torch has it: the old one warns there on every rank.
gather_into = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor

NOBODYS_TAG = 1  # others' messages have 0


class Handle(Protocol):
    """Operations that were started together."""

    def wait(self) -> None:
        """Return when the results may be used; raise when an operation failed."""


class Collectives(Protocol):
    """What a strategy asks for; all ranks call the same operations in the same order with equal sizes."""

    @property
    def rank(self) -> int: ...

    @property
    def world_size(self) -> int: ...

    @property
    def device(self) -> torch.device:
        """Where all tensors must be."""

    def all_gather(self, output: torch.Tensor, source: torch.Tensor, done: Callable[[], None]) -> Handle:
        """Every rank's `source`, in rank order, into `output` [world size * source]."""

    def all_reduce(self, tensors: Sequence[torch.Tensor], done: Callable[[], None]) -> Handle:
        """The sum over the ranks of each tensor, in place; `done` is called once, when all are complete."""

    def all_to_all(
        self, output: torch.Tensor, received: Sequence[int], source: torch.Tensor, sent: Sequence[int],
        done: Callable[[], None],
    ) -> Handle:  # fmt: skip
        """`source` is cut into `sent` elements for each rank; `output` gets `received` from each, in rank order."""

    def shift(self, output: torch.Tensor, source: torch.Tensor, done: Callable[[], None]) -> Handle:
        """`source` to the next rank, `output` from the one before, on a ring."""

    @property
    def bytes_sent(self) -> int:
        """What this rank has handed to operations so far; what it sends to itself is not counted."""

    def close(self, *, unfinished: bool = False) -> None:
        """Give the process group up, where that is safe. Nothing may be called afterwards. `unfinished`: other ranks
        may wait for this one, or this one for them, for ever; then the group ends, whoever made it."""


class _Works:
    """Keeps `tensors` until somebody has waited: NCCL works on their memory without holding them."""

    def __init__(
        self, works: Sequence[Any], tensors: Sequence[torch.Tensor], streams: Streams, done: Callable[[], None]
    ) -> None:
        self._works, self._tensors, self._done = works, tensors, done
        self._problem: Exception | None = None
        if works:
            streams.complete(works, self._all_done)
        else:
            done()

    def _all_done(self, problem: Exception | None) -> None:
        self._problem = problem
        self._done()

    def wait(self) -> None:
        if self._problem is not None:
            raise self._problem
        for work in self._works:
            work.wait()
        self._tensors = ()


class TorchCollectives:
    """On `group`, which nothing else uses and which is destroyed at the end if it `closes`, for tensors on the device
    of `streams`."""

    def __init__(self, group: Any, streams: Streams, *, closes: bool) -> None:
        self._group, self._streams, self._closes = group, streams, closes
        self._rank = dist.get_rank(group)
        self._world_size = dist.get_world_size(group)
        paired = streams.device.type == "cpu" and self._world_size == 2
        self._exchange = Exchange(group, other=1 - self._rank) if paired else None
        self._bytes_sent = 0

    @property
    def rank(self) -> int:
        return self._rank

    @property
    def world_size(self) -> int:
        return self._world_size

    @property
    def device(self) -> torch.device:
        return self._streams.device

    @property
    def bytes_sent(self) -> int:
        return self._bytes_sent

    def all_gather(self, output: torch.Tensor, source: torch.Tensor, done: Callable[[], None]) -> Handle:
        self._bytes_sent += source.nbytes
        if self._exchange is not None:
            mine, others = _mine_and_others(output.chunk(2), self._rank)
            mine.copy_(source)
            return self._exchange.begin(others, source, done)
        work = gather_into(output, source, group=self._group, async_op=True)
        return _Works([work], [output, source], self._streams, done)

    def all_reduce(self, tensors: Sequence[torch.Tensor], done: Callable[[], None]) -> Handle:
        self._bytes_sent += sum(tensor.nbytes for tensor in tensors)
        works = [dist.all_reduce(t, group=self._group, async_op=True) for t in tensors]
        return _Works(works, tensors, self._streams, done)

    def all_to_all(
        self, output: torch.Tensor, received: Sequence[int], source: torch.Tensor, sent: Sequence[int],
        done: Callable[[], None],
    ) -> Handle:  # fmt: skip
        self._bytes_sent += (sum(sent) - sent[self._rank]) * source.element_size()
        if self._exchange is not None:
            mine, others = _mine_and_others(torch.split(output, list(received)), self._rank)
            kept, given = _mine_and_others(torch.split(source, list(sent)), self._rank)
            mine.copy_(kept)
            return self._exchange.begin(others, given, done)
        work = dist.all_to_all_single(output, source, list(received), list(sent), group=self._group, async_op=True)
        return _Works([work], [output, source], self._streams, done)

    def shift(self, output: torch.Tensor, source: torch.Tensor, done: Callable[[], None]) -> Handle:
        sent, received = [0] * self._world_size, [0] * self._world_size
        sent[(self._rank + 1) % self._world_size] = source.numel()
        received[(self._rank - 1) % self._world_size] = output.numel()
        return self.all_to_all(output, received, source, sent, done)

    def close(self, *, unfinished: bool = False) -> None:
        group, self._group = self._group, None
        there = group is not None and dist.is_initialized()
        if there and unfinished and self.device.type == "cpu":
            _disconnect(group, set(range(self._world_size)) - {self._rank})
        if self._exchange is not None:
            self._exchange.close()  # even where all groups have been destroyed: its thread is ours
        if there and unfinished and self.device.type == "cuda":
            _abort(group)
        elif there and self._closes:
            with suppress(ValueError):  # it was destroyed with all groups, and others have been made since
                dist.destroy_process_group(group)


def _mine_and_others(parts: Sequence[torch.Tensor], rank: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Of two ranks' parts."""
    return parts[rank], parts[1 - rank]


def _abort(group: Any) -> None:
    """End the group's kernels, which may wait for a rank that is no more; whoever waits for them goes on."""
    try:
        group.abort()
    except RuntimeError as problem:
        log.warning("the process group could not be aborted: %s", problem)


def _disconnect(group: Any, others: Iterable[int]) -> None:
    """Let whoever waits in a group of Gloo's know that it is over. Gloo aborts nothing, and a group that is destroyed
    stays connected as long as somebody waits in it; but a wait that takes too long closes all its connections, here for
    a message to which nobody gives this tag, from the first of the others that is still there."""
    for other in others:
        with suppress(RuntimeError):
            work: Any = dist.irecv(torch.empty(1), group=group, group_src=other, tag=NOBODYS_TAG)
            work.wait(timedelta(milliseconds=1))


def from_first(collectives: Collectives, data: bytes) -> bytes:
    """Rank 0's bytes, on every rank; what the others give is not looked at."""
    device = collectives.device
    lengths = torch.empty(collectives.world_size, dtype=torch.int64, device=device)
    collectives.all_gather(lengths, torch.tensor([len(data)], device=device), lambda: None).wait()
    mine = torch.zeros(int(lengths[0]), dtype=torch.uint8, device=device)
    if collectives.rank == 0:
        mine.copy_(torch.frombuffer(bytearray(data), dtype=torch.uint8))
    everyone = torch.empty(collectives.world_size * len(mine), dtype=torch.uint8, device=device)
    collectives.all_gather(everyone, mine, lambda: None).wait()
    return bytes(everyone[: len(mine)].tolist())
