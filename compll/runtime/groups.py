"""Process groups of compll's own: on DDP's, its collectives would race the reducer's.

Only this, `collectives` and `sync` use torch.distributed.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from compll.diagnostics import CompllError
from compll.runtime.collectives import TorchCollectives, gather_into


def open_collectives(parent: dist.ProcessGroup, own: dist.ProcessGroup | None = None) -> TorchCollectives:
    """On `own`, a group that nothing else uses, or on a new group with the ranks and the timeout of `parent`.

    All ranks must call this together. Raises CompllError when the ranks of `own` are others, or when a part of all
    ranks cannot make a group by itself.
    """
    if own is parent:
        raise CompllError("process_group needs a group that nothing else uses, got that of the DDP object")
    needed = dist.get_process_group_ranks(parent)
    group: Any = _new_group(parent, needed) if own is None else own
    ranks = dist.get_process_group_ranks(group)
    if ranks != needed:
        raise CompllError(f"process_group needs the ranks of the DDP object, {needed}, got {ranks}")
    return TorchCollectives(group, closes=own is None and not _is_partial(parent))


def open_nodes(parent: dist.ProcessGroup, node_size: int) -> tuple[TorchCollectives, TorchCollectives]:
    """The collectives inside this rank's node, and those of the ranks with its place in theirs; for all ranks to call.

    Raises CompllError unless the ranks make nodes of `node_size`.
    """
    ranks = dist.get_process_group_ranks(parent)
    if len(ranks) % node_size:
        raise CompllError(f"node_size needs to divide the number of ranks, {len(ranks)}, got {node_size}")
    nodes = [ranks[first : first + node_size] for first in range(0, len(ranks), node_size)]
    places = [ranks[place::node_size] for place in range(node_size)]
    return _own_of(parent, nodes), _own_of(parent, places)


def _own_of(parent: dist.ProcessGroup, groups: Sequence[Sequence[int]]) -> TorchCollectives:
    """A new group for each of these sets of ranks; the one that this rank is in."""
    me, partial = dist.get_rank(), _is_partial(parent)
    made = [(ranks, _new_group(parent, ranks)) for ranks in groups if me in ranks or not partial]
    return next(TorchCollectives(group, closes=not partial) for ranks, group in made if me in ranks)


def _new_group(parent: dist.ProcessGroup, ranks: Sequence[int]) -> Any:
    partial = _is_partial(parent)
    if partial:
        _check_equal_counts(parent)
    return dist.new_group(list(ranks), timeout=group_timeout(parent), use_local_synchronization=partial)


def _is_partial(group: dist.ProcessGroup) -> bool:
    """Whether it has not all ranks. torch names a group that its members make alone by how many groups they are in:
    unequal counts hang, and so does the name of a destroyed group, used again; so such a group is never destroyed."""
    return dist.get_world_size(group) != dist.get_world_size()


def _check_equal_counts(parent: dist.ProcessGroup) -> None:
    counts = torch.empty(dist.get_world_size(parent), dtype=torch.int64)
    mine = torch.tensor([len(dist.distributed_c10d._world.pg_names)])
    gather_into(counts, mine, group=parent)
    if len(set(counts.tolist())) > 1:
        raise CompllError(
            "the ranks of the DDP object are in unequally many process groups, so that torch cannot make one for "
            "a part of all ranks: make a group with dist.new_group on all ranks and give it as process_group="
        )


def group_timeout(group: dist.ProcessGroup) -> timedelta:
    """The timeout that a group was made with; a new group does not inherit it."""
    device = "cuda" if dist.get_backend(group) == "nccl" else "cpu"
    return group._get_backend(torch.device(device)).options._timeout
