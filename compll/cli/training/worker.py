"""One process of the demo job: trains the model once for every request and reports to the process that started it."""

from __future__ import annotations

import math
import os
import signal
import statistics
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from multiprocessing.connection import Connection
from typing import NoReturn

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from compll.cli.training.exchange import dense_bytes, install
from compll.cli.training.request import Request
from compll.cli.training.results import Failure, Job, Progress, Run
from compll.cli.training.tasks import TASKS, Task

PROGRESS_EVERY_S = 0.2


def work(rank: int, job: Job, events: Connection) -> None:
    """The body of a worker process."""
    worker = Worker(rank=rank, job=job, events=events, task=TASKS[job.task])
    with reporting(rank, events, lambda: worker.current):
        worker.run_all()


@contextmanager
def reporting(rank: int, events: Connection, current: Callable[[], int]) -> Iterator[None]:
    """Around all that a worker process does, which ends with it: with status 0, or after an exception, which is
    reported as a Failure in the run that is `current`, with 1."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the starting process ends its workers itself
    try:
        yield
    except Exception as problem:
        text = f"{type(problem).__name__}: {problem}"
        with suppress(OSError):  # nobody may be listening any more
            events.send(Failure(rank=rank, run=current(), error=text, traceback=traceback.format_exc()))
        _leave(events, 1)  # at once: the others hang in a collective until this process's sockets are gone
    _leave(events, 0)


def _leave(events: Connection, status: int) -> NoReturn:
    """Without the interpreter's own end, in which Gloo's threads now and then abort the process."""
    events.close()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def join_group(rank: int, workers: int, store: str, timeout_s: float) -> None:
    """Make the process group of all workers, on the loopback."""
    if sys.platform == "linux":
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    dist.init_process_group(
        "gloo", init_method=f"file://{store}", rank=rank, world_size=workers, timeout=timedelta(seconds=timeout_s)
    )


@dataclass(slots=True, kw_only=True)
class Worker:
    rank: int
    job: Job
    events: Connection
    task: Task
    current: int = 0

    def run_all(self) -> None:
        torch.set_num_threads(1)
        join_group(self.rank, self.job.workers, self.job.store, self.job.timeout_s)
        for self.current, request in enumerate(self.job.requests):
            run = self.run(request)
            if self.rank == 0:
                self.events.send(run)
        dist.destroy_process_group()

    def run(self, request: Request) -> Run:
        torch.manual_seed(self.job.seed)
        model = self.task.model()
        ddp = DistributedDataParallel(model)
        exchange = install(ddp, request, self.job.seed)
        losses, step_ms = self.train(ddp, exchange.momentum)
        run = Run(
            request=request, metric=self.task.metric, value=self.evaluate(model), figures=exchange.figures(),
            dense_bytes=dense_bytes(ddp), step_ms=step_ms, momentum=exchange.momentum, losses=losses,
        )  # fmt: skip
        exchange.close()
        return run

    def train(self, ddp: DistributedDataParallel, momentum: float) -> tuple[list[float], float]:
        """Returns the losses, averaged over workers, and the median time of a step in milliseconds."""
        optimizer = torch.optim.SGD(ddp.parameters(), lr=0.0, momentum=momentum)
        losses, times, reported = [], [], 0.0
        for step, (inputs, targets) in enumerate(self.batches()):
            start = time.perf_counter()
            optimizer.param_groups[0]["lr"] = self.learning_rate(step)
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(ddp(inputs), targets)
            loss.backward()
            optimizer.step()
            now = time.perf_counter()
            losses.append(loss := loss.detach())
            times.append(now - start)
            if self.rank == 0 and now - reported > PROGRESS_EVERY_S:
                self.events.send(Progress(run=self.current, step=step + 1, loss=float(loss)))
                reported = now
        total = torch.stack(losses)
        dist.all_reduce(total)
        return (total / self.job.workers).tolist(), 1e3 * statistics.median(times)

    def batches(self) -> Iterator[tuple[Tensor, Tensor]]:
        """This worker's share of every step: the same examples for every request, dealt out in turn."""
        data, share = self.job.data, self.task.batch * self.job.workers
        per_epoch = len(data.train_targets) // share
        for step in range(self.job.steps):
            epoch, position = divmod(step, per_epoch)
            if position == 0:
                generator = torch.Generator().manual_seed(self.job.seed * 1_000_003 + epoch)
                order = torch.randperm(len(data.train_targets), generator=generator)
            chosen = order[position * share : (position + 1) * share][self.rank :: self.job.workers]
            yield data.train_inputs[chosen], data.train_targets[chosen]

    def learning_rate(self, step: int) -> float:
        """Linear warm-up, then a half cosine to zero."""
        warm = min(1.0, (step + 1) / self.task.warmup_steps)
        return self.task.learning_rate * warm * 0.5 * (1 + math.cos(math.pi * step / self.job.steps))

    @torch.no_grad()
    def evaluate(self, model: nn.Module) -> float:
        """Accuracy in per cent, or the mean loss in nats, on the held-out examples."""
        outputs = model(self.job.data.test_inputs)
        targets = self.job.data.test_targets
        if self.task.metric == "accuracy":
            return 100 * float((outputs.argmax(1) == targets).float().mean())
        return float(nn.functional.cross_entropy(outputs, targets))
