"""A short job whose workers report their timelines."""

from __future__ import annotations

from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from compll.cli.training.exchange import Compiled, install
from compll.cli.training.results import Job
from compll.cli.training.tasks import TASKS
from compll.cli.training.worker import Worker, join_group, reporting

BUCKET_CAP_MB = 0.05  # the tasks' models are small: with DDP's 25 MB there would be one bucket, and no overlap to see


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """What one worker's SyncState traced."""

    trace: dict[str, Any]


def trace_steps(rank: int, job: Job, events: Connection) -> None:
    """The body of a worker process: train with the job's one request, then send the timeline."""
    worker = Worker(rank=rank, job=job, events=events, task=TASKS[job.task])
    with reporting(rank, events, lambda: 0):
        torch.set_num_threads(1)
        join_group(rank, job.workers, job.store, job.timeout_s)
        torch.manual_seed(job.seed)
        ddp = DistributedDataParallel(worker.task.model(), bucket_cap_mb=BUCKET_CAP_MB)
        exchange = install(ddp, job.requests[0], job.seed)
        assert isinstance(exchange, Compiled)
        worker.train(ddp, exchange.momentum)
        events.send(Timeline(trace=exchange.sync.trace()))
        dist.barrier()
        exchange.close()
        dist.destroy_process_group()
