"""Jobs by name: shapes that ship with the package, tasks of `compll train`, or a user's own model."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module, resources
from pathlib import Path

import torch
from torch import Tensor, nn

from compll.cli.benchmark.workload import SUFFIX, model_names
from compll.cli.training.tasks import TASKS
from compll.cli.values import parse_shape
from compll.diagnostics import CompllError
from compll.runtime.planning.backward import measured_job, synthetic_job
from compll.runtime.planning.jobs import Job
from compll.runtime.planning.timing import REPEATS

#: Forward and backward in seconds, for models of which only shapes are here: of one V100 with 32 images, and with 32
#: sequences of 128 tokens (from the linear-scaling throughputs that HiPress, SOSP'21, reports for 128 of them).
COMPUTE_S = {"resnet50": 0.098, "bert-large": 0.787}


@dataclass(frozen=True, slots=True)
class Model:
    """A model and what its loss on one batch is, given the model or what wraps it."""

    module: nn.Module
    loss: Callable[[nn.Module], Tensor]


def job_of(name: str, *, min_numel: int = 1024, compute_s: float | None = None, repeats: int = REPEATS) -> Job:
    """The job of `resnet50`, `bert-large`, a task of `compll train`, or `module:function`.

    Times are measured here, on the current number of threads; for models of which there are only shapes they are made
    up, `compute_s` seconds of forward and backward. Raises CompllError for another name, or a model that does not run.
    """
    if not has_model(name):
        return synthetic_job(named_shapes(name), compute_s=compute_s or COMPUTE_S[name], min_numel=min_numel)
    if compute_s is not None:
        raise CompllError(f"the times of model `{name}` are measured: they need no --compute-ms")
    model = model_of(name)
    return measured_job(model.module, lambda: model.loss(model.module), min_numel=min_numel, repeats=repeats)


def has_model(name: str) -> bool:
    """Whether there is more than shapes."""
    return name not in model_names()


def model_of(name: str) -> Model:
    """A new model: a task of `compll train`, or `module:function`. Raises CompllError for another name."""
    return _task_model(name) if name in TASKS else _own_model(name)


def named_shapes(name: str) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """Names and shapes of a model's gradients, in the order of `named_parameters()`."""
    text = (resources.files("compll.shapes") / f"{name}{SUFFIX}").read_text(encoding="utf-8")
    rows = (line.split() for line in text.splitlines() if not line.startswith("#"))
    return tuple((row[0], parse_shape(row[1])) for row in rows)


def _task_model(name: str) -> Model:
    from compll.cli.training.data import LOADERS  # brings in scikit-learn

    task, data = TASKS[name], LOADERS[name]()
    torch.manual_seed(0)
    module = task.model()
    inputs, targets = data.train_inputs[: task.batch], data.train_targets[: task.batch]
    return Model(module, lambda model: nn.functional.cross_entropy(model(inputs), targets))


def _own_model(text: str) -> Model:
    """What `module:function` returns: (model, batch, loss), with `loss(model, batch)` a tensor of one element."""
    module_name, colon, function_name = text.partition(":")
    if not colon:
        known = ", ".join((*model_names(), *TASKS))
        raise CompllError(f"a model needs one of {known} or the form module:function, got `{text}`")
    sys.path.insert(0, str(Path.cwd()))
    try:
        made = getattr(import_module(module_name), function_name)()
        model, batch, loss = made
    except Exception as problem:
        raise CompllError(
            f"model `{text}` needs a function that returns (model, batch, loss): {type(problem).__name__}: {problem}"
        ) from None
    finally:
        sys.path.remove(str(Path.cwd()))
    if not isinstance(model, nn.Module):
        raise CompllError(f"model `{text}` needs a torch module in first place, got {type(model).__name__}")
    return Model(model, lambda module: loss(module, batch))
