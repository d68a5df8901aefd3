"""One process of `compll profile`: all of them measure together, rank 0 reports."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from multiprocessing.connection import Connection

import torch
import torch.distributed as dist

from compll.cli.planning.measure import Wanted, profile
from compll.cli.training.worker import join_group, reporting
from compll.runtime.collectives import Collectives
from compll.runtime.groups import open_collectives, open_nodes
from compll.runtime.planning.profile import Profile
from compll.runtime.streams import HostStreams

#: What torchrun tells the processes that it starts.
LAUNCHED = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


def work(rank: int, wanted: Wanted, events: Connection) -> None:
    """The body of a worker process that `run_job` starts."""
    current = -1

    def doing(run: int) -> None:
        nonlocal current
        current = run

    with reporting(rank, events, lambda: current):
        join_group(rank, wanted.workers, wanted.store, wanted.timeout_s)
        found = _measured(wanted, doing)
        if rank == 0:
            events.send(found)
        dist.destroy_process_group()


def is_launched() -> bool:
    """Whether this process is one of several that torchrun has started."""
    return all(name in os.environ for name in LAUNCHED)


def launched_profile(wanted: Wanted) -> Profile | None:
    """Measure in the group that torchrun has started; the profile on rank 0, None on the others."""
    dist.init_process_group("gloo")
    try:
        found = _measured(replace(wanted, workers=dist.get_world_size()), lambda run: None)
        return found if dist.get_rank() == 0 else None
    finally:
        dist.destroy_process_group()


def _measured(wanted: Wanted, doing: Callable[[int], None]) -> Profile:
    torch.set_num_threads(wanted.threads)
    world = dist.distributed_c10d._get_default_group()
    streams = HostStreams()
    everyone = open_collectives(world, streams)
    groups: dict[str, Collectives] = {"all": everyone}
    if 1 < wanted.node_size < wanted.workers:
        node, across = open_nodes(world, streams, wanted.node_size)
        groups |= {"node": node, "across": across}
    try:
        return profile(wanted, groups, doing)
    finally:
        for collectives in groups.values():
            collectives.close()
        streams.close()
