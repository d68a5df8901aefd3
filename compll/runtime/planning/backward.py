"""When backward has each gradient: measured on a model, or made up from shapes alone."""

from __future__ import annotations

import math
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

import torch
from torch import nn
from torch.utils.hooks import RemovableHandle

from compll.runtime.planning.jobs import ITEM_BYTES, Gradient, Job, bucket_numbers
from compll.runtime.planning.timing import REPEATS, WARM_UP

#: Forward's share of forward and backward: the latter computes two products for each one of the former.
FORWARD = 1 / 3


def measured_job(model: nn.Module, loss: Callable[[], torch.Tensor], *, min_numel: int, repeats: int = REPEATS) -> Job:
    """The job of a model on the CPU: medians of the times at which its gradients were ready, copied into buckets as by
    DDP.

    `loss` runs forward on one batch. A gradient that never came is ready when backward ends. The model's gradients are
    dropped afterwards.
    """
    named = {name: p for name, p in model.named_parameters() if p.requires_grad}
    buckets = {name: torch.zeros_like(p) for name, p in named.items()}
    times: dict[str, list[float]] = defaultdict(list)
    ends: list[float] = []
    for turn in range(-WARM_UP, repeats):
        ready, end = _timed_backward(named, buckets, loss)
        model.zero_grad(set_to_none=True)
        if turn >= 0:
            ends.append(end)
            for name in named:
                times[name].append(ready.get(name, end))
    order = sorted(named, key=lambda name: statistics.median(times[name]))
    dtypes = {name: str(named[name].dtype).removeprefix("torch.") for name in order}
    listed = [(name, tuple(named[name].shape), dtypes[name], statistics.median(times[name])) for name in order]
    return _job(listed, statistics.median(ends), min_numel)


def synthetic_job(shapes: Sequence[tuple[str, tuple[int, ...]]], *, compute_s: float, min_numel: int) -> Job:
    """The job of f32 gradients of which only names and shapes are known, in the order of `named_parameters()`.

    Backward goes from the last to the first; every matrix or convolution takes equally long, a vector (bias, scale)
    comes with the one before it. `compute_s` is forward and backward together, in seconds.
    """
    layers = max(1, sum(len(shape) > 1 for _, shape in shapes))
    begin = FORWARD * compute_s
    listed, done = [], 0
    for name, shape in reversed(shapes):
        listed.append((name, shape, "float32", begin + (compute_s - begin) * min(1.0, (done + 1) / layers)))
        done += len(shape) > 1
    return _job(listed, compute_s, min_numel)


def _job(listed: Iterable[tuple[str, tuple[int, ...], str, float]], backward_s: float, min_numel: int) -> Job:
    rows = list(listed)
    sizes = [math.prod(shape) * ITEM_BYTES.get(dtype, 0) for _, shape, dtype, _ in rows]
    buckets = bucket_numbers(sizes, [dtype for _, _, dtype, _ in rows])
    gradients = (
        Gradient(
            name=name, shape=shape, dtype=dtype, bucket=bucket, ready_s=ready,
            compressible=len(shape) > 1 and math.prod(shape) >= max(1, min_numel) and dtype != "float64",
        )
        for (name, shape, dtype, ready), bucket in zip(rows, buckets, strict=True)
    )  # fmt: skip
    return Job(gradients=tuple(gradients), backward_s=backward_s)


def _timed_backward(
    named: Mapping[str, nn.Parameter], buckets: Mapping[str, torch.Tensor], loss: Callable[[], torch.Tensor]
) -> tuple[dict[str, float], float]:
    """When each gradient was in its bucket and when backward ended, in seconds from the start of forward."""
    ready: dict[str, float] = {}
    start = time.perf_counter()

    def note(name: str) -> Callable[[nn.Parameter], None]:
        def collect(parameter: nn.Parameter) -> None:
            if parameter.grad is not None and parameter.grad.layout is torch.strided:
                buckets[name].copy_(parameter.grad)
            ready[name] = time.perf_counter() - start

        return collect

    hooks: list[RemovableHandle] = []
    for name, p in named.items():
        hooks.append(p.register_post_accumulate_grad_hook(note(name)))  # type: ignore[no-untyped-call]
    try:
        start = time.perf_counter()
        loss().backward()  # type: ignore[no-untyped-call]
        return ready, time.perf_counter() - start
    finally:
        for hook in hooks:
            hook.remove()
