"""Before workers start: refuses what cannot be meant, and compiles every program into the cache of kernels."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import torch
from torch import nn

import compll
from compll.cli.training.exchange import BASELINES, check_baseline
from compll.cli.training.request import Request
from compll.runtime.options import ParameterSchedule, split_arguments


@dataclass(frozen=True, slots=True)
class Trial:
    """A compressor with the parameters of some step, and the shapes that it will meet."""

    compressor: compll.Compressor
    shapes: frozenset[tuple[int, ...]]

    def run(self) -> None:
        for shape in sorted(self.shapes):
            payload = self.compressor.encode(torch.zeros(shape))
            out = self.compressor.decode(payload)
            self.compressor.decode(payload, out=out, add=True)


def prepare(requests: Sequence[Request], model: nn.Module) -> None:
    """Raises CompllError for an unknown name, a faulty program, a parameter or option that does not exist."""
    trials = [trial for request in requests for trial in _trials(request, model)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(Trial.run, trials))


def _trials(request: Request, model: nn.Module) -> Iterator[Trial]:
    if request.name in BASELINES:
        check_baseline(request)
        return
    known = compll.load(request.name)
    options, given = split_arguments(request.params, tuple(known.params), known.name)
    compressor, schedule = compll.load(request.name, backend=options.backend), ParameterSchedule(given)
    large = (p for p in model.parameters() if p.dim() > 1 and p.numel() >= options.min_numel)
    shapes = frozenset(tuple(p.shape) for p in large)
    for step in schedule.changes():
        yield Trial(compressor.with_params(**schedule.at(step)), shapes)
