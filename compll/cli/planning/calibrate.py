"""What the runtime itself does for a task: by how much real steps are longer than what is in them takes alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import compll
from compll.cli.planning.compressors import Candidate
from compll.runtime.plan import Route
from compll.runtime.planning.backward import measured_job
from compll.runtime.planning.prediction import Predictor
from compll.runtime.planning.samples import Sample, measured_topology
from compll.runtime.planning.timing import typical
from compll.runtime.strategies import default_strategy

#: The model whose steps are taken: so many square layers, each of the largest measured size at most.
LAYERS = 4
BLOCKS, STEPS = 5, 4

MOST_TASK_S = 0.05
HALVINGS = 12


def task_sample(candidate: Candidate, shared: Sequence[Sample], *, largest: int, workers: int) -> Sample:
    """The seconds for a task with which a predicted step is the measured one, by the compressor's usual strategy; all
    ranks of the default process group call this together."""
    width = math.isqrt(largest)
    model = nn.Sequential(*(nn.Linear(width, width, bias=False) for _ in range(LAYERS)))
    batch = torch.ones(1, width)
    job = measured_job(model, lambda: model(batch).sum(), min_numel=1)
    predictor = candidate.predictor(job, shared, measured_topology(shared, workers))
    route = Route(strategy=default_strategy(candidate.compressor))
    measured_s = _step_s(model, candidate.compressor, batch)
    low, high = 0.0, MOST_TASK_S
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        costs = replace(predictor.costs, compute=replace(predictor.costs.compute, task=middle))
        predicted_s, _ = Predictor(job, costs).step({gradient.name: route for gradient in job.gradients})
        low, high = (middle, high) if predicted_s < measured_s else (low, middle)
    return Sample(operation="task", size=1, seconds=low)


def _step_s(model: nn.Module, compressor: compll.Compressor, batch: torch.Tensor) -> float:
    ddp = DistributedDataParallel(model, gradient_as_bucket_view=True)

    def step() -> None:
        ddp.zero_grad(set_to_none=True)
        ddp(batch).sum().backward()

    sync = compll.attach(ddp, compressor, min_numel=1)
    try:
        return typical(step, BLOCKS, runs=STEPS)
    finally:
        sync.close()
