"""What the runtime itself does for a task: a real step with one small gradient, less what its operations cost alone."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import compll
from compll.cli.planning.compressors import Candidate
from compll.runtime.plan import Route
from compll.runtime.planning.jobs import Gradient, Job
from compll.runtime.planning.messages import bucket_messages
from compll.runtime.planning.rounds import bare_work
from compll.runtime.planning.samples import Sample, measured_topology
from compll.runtime.strategies import default_strategy

WIDTH = 64
STEPS = 20
WARM_UP = 5


def task_sample(candidate: Candidate, shared: Sequence[Sample], ranks: int) -> Sample:
    """Seconds of the runtime's own work for a task; all ranks of the default process group call this together."""
    model = nn.Linear(WIDTH, WIDTH, bias=False)
    batch = torch.ones(1, WIDTH)
    alone = _shortest(lambda: model(batch).sum().backward())
    ddp = DistributedDataParallel(model)
    sync = compll.attach(ddp, candidate.compressor, min_numel=1)
    together = _shortest(lambda: ddp(batch).sum().backward())
    sync.close()
    gradient = Gradient(name="weight", shape=(WIDTH, WIDTH), bucket=0, ready_s=0.0, compressible=True)
    job = Job(gradients=(gradient,), backward_s=0.0)
    predictor = candidate.predictor(job, shared, measured_topology(shared, ranks))
    route = Route(strategy=default_strategy(candidate.compressor))
    (message,) = bucket_messages([gradient], [route], predictor.payload)
    work = bare_work(message, predictor.costs)
    tasks = 2 * len(work.rounds) + 1
    return Sample(operation="task", size=1, seconds=max(0.0, together - alone - work.compute - work.wire) / tasks)


def _shortest(step: Callable[[], object]) -> float:
    times = []
    for _ in range(WARM_UP + STEPS):
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    return min(times[WARM_UP:])
