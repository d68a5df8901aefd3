"""Process groups of compll's own: on DDP's, its collectives would race the reducer's.

Only this, `meeting`, `opening`, `collectives`, `exchange` and `sync` call torch.distributed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from compll.diagnostics import CompllError, UnsupportedError
from compll.runtime.collectives import TorchCollectives, gather_into
from compll.runtime.streams import Streams

#: torch's watchdog ends a process whose NCCL collective takes longer than its group allows, and says nothing of what
#: was synchronised. The worker gives up when the time is over, and has this much more to be heard.
WATCHDOG_GRACE = timedelta(seconds=30)


def check_groups(parent: dist.ProcessGroup, device: torch.device, own: dist.ProcessGroup | None) -> None:
    """Raise UnsupportedError for a group that does not reach the device, CompllError where `own` is the DDP object's
    `parent` or has other ranks."""
    _check_reaches(parent, device, "the DDP object's")
    if own is None:
        return
    if own is parent:
        raise CompllError("process_group needs a group that nothing else uses, got that of the DDP object")
    _check_reaches(own, device, "process_group")
    needed, ranks = dist.get_process_group_ranks(parent), dist.get_process_group_ranks(own)
    if ranks != needed:
        raise CompllError(f"process_group needs the ranks of the DDP object, {needed}, got {ranks}")


def open_collectives(
    parent: dist.ProcessGroup, streams: Streams, own: dist.ProcessGroup | None = None
) -> TorchCollectives:
    """On `own`, a group that nothing else uses, or on a new group with the ranks and the timeout of `parent`; they are
    as `check_groups` needs them.

    All ranks must call this together. Raises CompllError when a part of all ranks cannot make a group by itself.
    """
    if own is not None:
        return TorchCollectives(own, streams, closes=False)
    ranks = dist.get_process_group_ranks(parent)
    return TorchCollectives(_new_group(parent, streams, ranks), streams, closes=not _is_partial(parent))


def _check_reaches(group: dist.ProcessGroup, device: torch.device, whose: str) -> None:
    on_gpu, found = device.type == "cuda", backend_of(group, device)
    if found is None or (on_gpu and found != "nccl"):
        need = "NCCL" if on_gpu else "Gloo"
        raise UnsupportedError(
            f"gradients on `{device}` need a process group with {need}, {whose} has {found or 'nothing'} for them: "
            f"init_process_group({need.lower()!r})"
        )


def backend_of(group: dist.ProcessGroup, device: torch.device) -> str | None:
    """What the group moves tensors of this device with, by torch's name; None where it cannot."""
    try:
        name: str = group._get_backend(device).name()
    except RuntimeError:
        return None
    return name


def open_nodes(parent: dist.ProcessGroup, streams: Streams, node_size: int) -> Iterator[TorchCollectives]:
    """The collectives inside this rank's node, then those of the ranks with its place in theirs; for all ranks to take
    together. Each is the caller's to close as soon as it is there, since making the next may fail.

    Raises CompllError unless the ranks make nodes of `node_size`.
    """
    ranks = dist.get_process_group_ranks(parent)
    if len(ranks) % node_size:
        raise CompllError(f"node_size needs to divide the number of ranks, {len(ranks)}, got {node_size}")
    nodes = [ranks[first : first + node_size] for first in range(0, len(ranks), node_size)]
    places = [ranks[place::node_size] for place in range(node_size)]
    me, partial = dist.get_rank(), _is_partial(parent)
    for ranks in (*nodes, *places):
        if me in ranks or not partial:  # all ranks make all groups, where they can
            group = _new_group(parent, streams, ranks)
            if me in ranks:
                yield TorchCollectives(group, streams, closes=not partial)


def _new_group(parent: dist.ProcessGroup, streams: Streams, ranks: Sequence[int]) -> Any:
    """With what `parent` has for this device; by itself a new group takes what the default group has."""
    partial, device = _is_partial(parent), streams.device
    if partial:
        _check_equal_counts(parent, device)
    timeout = group_timeout(parent, device) + (WATCHDOG_GRACE if device.type == "cuda" else timedelta())
    return dist.new_group(
        list(ranks), timeout=timeout, backend=backend_of(parent, device), use_local_synchronization=partial
    )


def _is_partial(group: dist.ProcessGroup) -> bool:
    """Whether it has not all ranks. torch names a group that its members make alone by how many groups they are in:
    unequal counts hang, and so does the name of a destroyed group, used again; so such a group is never destroyed."""
    return dist.get_world_size(group) != dist.get_world_size()


def _check_equal_counts(parent: dist.ProcessGroup, device: torch.device) -> None:
    counts = torch.empty(dist.get_world_size(parent), dtype=torch.int64, device=device)
    mine = torch.tensor([len(dist.distributed_c10d._world.pg_names)], device=device)
    gather_into(counts, mine, group=parent)
    if len(set(counts.tolist())) > 1:
        raise CompllError(
            "the ranks of the DDP object are in unequally many process groups, so that torch cannot make one for "
            "a part of all ranks: make a group with dist.new_group on all ranks and give it as process_group="
        )


def group_timeout(group: dist.ProcessGroup, device: torch.device) -> timedelta:
    """The timeout that a group was made with, for tensors of this device; a new group does not inherit it."""
    timeout: timedelta = group._get_backend(device).options._timeout
    return timeout
