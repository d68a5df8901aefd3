"""What the runtime itself does for a task: by how much real steps are longer than what is in them takes alone."""

from __future__ import annotations

from dataclasses import replace

from torch.nn.parallel import DistributedDataParallel

import compll
from compll.cli.planning.models import Model
from compll.runtime.plan import Plan
from compll.runtime.planning.prediction import Predictor
from compll.runtime.planning.samples import Sample
from compll.runtime.planning.timing import typical

BLOCKS, STEPS = 5, 3

MOST_TASK_S = 0.05
HALVINGS = 12


def task_sample(
    compressor: compll.Compressor, strategy: str, predictor: Predictor, model: Model, min_numel: int
) -> Sample:
    """The seconds for a task with which the predicted step of the predictor's job is that of the model, where
    everything goes by `strategy`; all ranks of the default process group call this together."""
    job, costs = predictor.job, predictor.costs
    compressible = {gradient.name: gradient.compressible for gradient in job.gradients}
    routes = Plan.uniform(compressible, strategy).routes
    measured_s = _step_s(compressor, strategy, model, min_numel)
    low, high = 0.0, MOST_TASK_S
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        changed = Predictor(job, replace(costs, compute=replace(costs.compute, task=middle)))
        predicted_s, _ = changed.step(routes)
        low, high = (middle, high) if predicted_s < measured_s else (low, middle)
    return Sample(operation="task", size=1, seconds=low, scope=strategy)


def _step_s(compressor: compll.Compressor, strategy: str, model: Model, min_numel: int) -> float:
    ddp = DistributedDataParallel(model.module, gradient_as_bucket_view=True)

    def step() -> None:
        ddp.zero_grad(set_to_none=True)
        model.loss(ddp).backward()  # type: ignore[no-untyped-call]

    sync = compll.attach(ddp, compressor, strategy=strategy, min_numel=min_numel)
    try:
        return typical(step, BLOCKS, runs=STEPS)
    finally:
        sync.close()
