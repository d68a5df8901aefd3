"""One rank: moves to its machine, installs every way on a model of its own, and times their steps in turns."""

from __future__ import annotations

import os
import random
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from benchmarks.netlab.lab import DEVICE
from benchmarks.netlab.model import Pool, new_model, new_pool, start
from benchmarks.netlab.namespaces import die_with_parent, enter
from benchmarks.netlab.timings import Job, Steps
from benchmarks.netlab.ways import LARGE_MB, NOTHING, WAYS, Close, Place
from compll.cli.training.worker import join_group, reporting
from compll.runtime.collectives import gather_into

PROBE_BYTES = 4_000_000
PROBES = 3


@contextmanager
def on_machine(rank: int, job: Job, events: Connection, racer: Race) -> Iterator[None]:
    """Around all that a rank does: it is on its machine and in the group of all ranks, and problems are reported."""
    die_with_parent()
    with reporting(rank, events, lambda: racer.current):
        enter(job.namespaces[rank // job.setup.ranks])
        os.environ["GLOO_SOCKET_IFNAME"] = DEVICE
        torch.set_num_threads(job.threads)
        join_group(rank, job.workers, job.store, job.timeout_s)
        yield
        dist.destroy_process_group()


def work(rank: int, job: Job, events: Connection) -> None:
    """The body of a worker process."""
    race = Race(rank, job)
    with on_machine(rank, job, events, race):
        events.send(race.run())


class Race:
    """`current` is the number of the way that is at it."""

    def __init__(self, rank: int, job: Job) -> None:
        self.rank = rank
        self.job = job
        self.current = 0
        self._seconds: dict[str, list[float]] = defaultdict(list)
        self._sent: dict[str, list[int]] = defaultdict(list)

    def run(self) -> Steps:
        pool = new_pool(self.job.layers, self.job.width, seed=self.rank)
        models, closes = self._models(pool)
        order = random.Random(0)  # the same on all ranks
        for turn in range(-self.job.warm_up, self.job.rounds):
            pool.step += 1
            for self.current in order.sample(range(len(models)), len(models)):
                self._timed_step(models[self.current], keep=turn >= 0)
        different = tuple(way for way, ddp in zip(self.job.ways, models) if way != NOTHING and not _equal(ddp))
        for close in closes:
            close()
        return Steps(rank=self.rank, seconds=dict(self._seconds), sent=dict(self._sent), different=different)

    def _models(self, pool: Pool) -> tuple[list[DistributedDataParallel], list[Close]]:
        place = Place(self.job.setup, Path(self.job.plan) if self.job.plan else None)
        models, closes = [], []
        for self.current, name in enumerate(self.job.ways):
            way = WAYS[name]
            ddp = DistributedDataParallel(
                new_model(self.job.layers, self.job.width, pool), init_sync=False, gradient_as_bucket_view=True,
                bucket_cap_mb=LARGE_MB if way.one_bucket else None,
            )  # fmt: skip
            closes.append(way.install(ddp, place))
            models.append(ddp)
        return models, closes

    def _timed_step(self, ddp: DistributedDataParallel, keep: bool) -> None:
        ddp.zero_grad(set_to_none=True)
        dist.barrier()
        before, begin = sent_bytes(), time.perf_counter()
        ddp(start()).backward()
        seconds = time.perf_counter() - begin
        dist.barrier()  # what other ranks of the machine send belongs to the step, too
        if keep:
            way = self.job.ways[self.current]
            self._seconds[way].append(seconds)
            self._sent[way].append(sent_bytes() - before)


def sent_bytes() -> int:
    """What this machine has sent over its link, headers and all."""
    for line in Path("/proc/thread-self/net/dev").read_text().splitlines():
        name, _, counts = line.partition(":")
        if name.strip() == DEVICE:
            return int(counts.split()[8])
    raise RuntimeError(f"no {DEVICE} on this machine")


def probe(rank: int, job: Job, events: Connection) -> None:
    """The body of a worker that sends PROBE_BYTES to its successor while it receives as many; rank 0 reports bits per
    second, the best of a few turns. A burst makes them up to `burst(rate) / PROBE_BYTES` more than the link's."""
    with on_machine(rank, job, events, Race(rank, job)):
        outgoing, incoming = (torch.zeros(PROBE_BYTES, dtype=torch.uint8) for _ in range(2))
        times = []
        for _ in range(PROBES):
            dist.barrier()
            begin = time.perf_counter()
            receiving = dist.irecv(incoming, (rank - 1) % job.workers)
            dist.send(outgoing, (rank + 1) % job.workers)
            assert receiving is not None
            receiving.wait()
            times.append(time.perf_counter() - begin)
        if rank == 0:
            events.send(8 * PROBE_BYTES / min(times))


def _equal(ddp: DistributedDataParallel) -> bool:
    """Whether all ranks have the same gradients, by the sum of their bits."""
    gradients = [p.grad for p in ddp.parameters()]
    mine = torch.stack([g.view(torch.int32).sum(dtype=torch.int64) for g in gradients if g is not None])
    everyone = torch.empty(dist.get_world_size() * len(mine), dtype=torch.int64)
    gather_into(everyone, mine)
    return bool((everyone.view(-1, len(mine)) == mine).all())
