"""The collectives that strategies use, on a process group of their own. Only this and `sync` use torch.distributed.

Everything here is asynchronous: `done` is called on some thread when an operation has ended, well or not, and must do
no more than note it. Waiting inside such a callback deadlocks Gloo.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from threading import Lock
from typing import Any, Protocol

import torch
import torch.distributed as dist

from compll.diagnostics import CompllError

#: Under its new name where torch has it: the old one warns there on every rank.
_gather_into = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor


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

    def all_gather(self, output: torch.Tensor, source: torch.Tensor, done: Callable[[], None]) -> Handle:
        """Every rank's `source`, in rank order, into `output` [world size * source]."""

    def all_reduce(self, tensors: Sequence[torch.Tensor], done: Callable[[], None]) -> Handle:
        """The sum over the ranks of each tensor, in place; `done` is called once, when all are complete."""

    def close(self) -> None:
        """Give the process group up, where that is safe. Nothing may be called afterwards."""


class _Works:
    def __init__(self, works: Sequence[Any], done: Callable[[], None]) -> None:
        self._works = works
        self._left = len(works)
        self._lock = Lock()
        self._done = done
        for work in works:
            work.get_future().add_done_callback(self._one_done)
        if not works:
            done()

    def _one_done(self, _: object) -> None:
        with self._lock:
            self._left -= 1
            last = self._left == 0
        if last:
            self._done()

    def wait(self) -> None:
        for work in self._works:
            work.wait()


class TorchCollectives:
    """On `own`, a group that nothing else uses, or on a new group with the ranks and the timeout of `parent`.

    All ranks must construct this together. Raises CompllError when the ranks of `own` are others, or when a part of all
    ranks cannot make a group by itself.
    """

    def __init__(self, parent: dist.ProcessGroup, own: dist.ProcessGroup | None = None) -> None:
        self._group: Any = _new_group(parent) if own is None else own
        self._closes = own is None and not _is_partial(parent)
        ranks, needed = dist.get_process_group_ranks(self._group), dist.get_process_group_ranks(parent)
        if ranks != needed:
            raise CompllError(f"process_group needs the ranks of the DDP object, {needed}, got {ranks}")
        self._rank = dist.get_rank(self._group)
        self._world_size = dist.get_world_size(self._group)

    @property
    def rank(self) -> int:
        return self._rank

    @property
    def world_size(self) -> int:
        return self._world_size

    def all_gather(self, output: torch.Tensor, source: torch.Tensor, done: Callable[[], None]) -> Handle:
        return _Works([_gather_into(output, source, group=self._group, async_op=True)], done)

    def all_reduce(self, tensors: Sequence[torch.Tensor], done: Callable[[], None]) -> Handle:
        return _Works([dist.all_reduce(t, group=self._group, async_op=True) for t in tensors], done)

    def close(self) -> None:
        group, self._group = self._group, None
        if group is not None and self._closes and dist.is_initialized():
            dist.destroy_process_group(group)


def _new_group(parent: dist.ProcessGroup) -> Any:
    ranks = dist.get_process_group_ranks(parent)
    partial = _is_partial(parent)
    if partial:
        _check_equal_counts(parent, len(ranks))
    return dist.new_group(ranks, timeout=group_timeout(parent), use_local_synchronization=partial)


def _is_partial(group: dist.ProcessGroup) -> bool:
    """Whether it has not all ranks. torch names a group that its members make alone by how many groups they are in:
    unequal counts hang, and so does the name of a destroyed group, used again; so such a group is never destroyed."""
    return dist.get_world_size(group) != dist.get_world_size()


def _check_equal_counts(parent: dist.ProcessGroup, world_size: int) -> None:
    counts = torch.empty(world_size, dtype=torch.int64)
    mine = torch.tensor([len(dist.distributed_c10d._world.pg_names)])
    _gather_into(counts, mine, group=parent)
    if len(set(counts.tolist())) > 1:
        raise CompllError(
            "the ranks of the DDP object are in unequally many process groups, so that torch cannot make one for "
            "a part of all ranks: make a group with dist.new_group on all ranks and give it as process_group="
        )


def group_timeout(group: dist.ProcessGroup) -> timedelta:
    """The timeout that a group was made with; a new group does not inherit it."""
    device = "cuda" if dist.get_backend(group) == "nccl" else "cpu"
    return group._get_backend(torch.device(device)).options._timeout


def check_agreement(collectives: TorchCollectives, digest: bytes, what: str) -> None:
    """Raise CompllError on every rank when the ranks' digests differ. `what` says what they are digests of."""
    mine = torch.tensor(list(digest), dtype=torch.uint8)
    everyone = torch.empty(collectives.world_size * len(mine), dtype=torch.uint8)
    collectives.all_gather(everyone, mine, lambda: None).wait()
    rows = everyone.view(collectives.world_size, -1)
    different = [rank for rank in range(collectives.world_size) if not torch.equal(rows[rank], rows[0])]
    if different:
        raise CompllError(f"all ranks need the same {what}; it differs between rank 0 and rank {different[0]}")
