"""What the GPU suite runs on: the CUDA device, or, to try the suite itself without a GPU, the emulator.

COMPLL_GPU_BACKEND=emulator chooses the emulator; what is about streams, graphs and memory is skipped then.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import pytest
import torch
from differential.gradients import Run, differences

import compll
from compll.runtime.devices import missing_devices

BACKEND = os.environ.get("COMPLL_GPU_BACKEND", "cuda")
DEVICE = torch.device("cuda" if BACKEND == "cuda" else "cpu")
EMULATED = BACKEND == "emulator"
_REASON = missing_devices().get(BACKEND)

#: For everything here.
needs_backend = [
    pytest.mark.gpu,
    pytest.mark.skipif(_REASON is not None, reason=f"backend `{BACKEND}` is not there: {_REASON}"),
]
#: For what an emulator has not.
needs_gpu = [*needs_backend, pytest.mark.skipif(EMULATED, reason="needs a GPU")]

ALGORITHMS = sorted(p.stem for p in Path(__file__).parents[2].glob("algorithms/*.cll"))
#: Matrix products come from the platform's library.
INEXACT = {"powersgd"}
EXACT = [name for name in ALGORITHMS if name not in INEXACT]

KEY = compll.Key(seed=3, step=1, gradient=2, rank=0)

Steps = list[dict[str, torch.Tensor]]


def run(name: str, backend: str, gradients: Iterable[torch.Tensor]) -> Steps:
    """Everything that leaves a compressor, step after step, brought to the CPU."""
    device = DEVICE if backend == BACKEND else torch.device("cpu")
    steps = Run(compll.load(name, backend=backend)).steps([g.to(device) for g in gradients])
    return [{what: tensor.cpu() for what, tensor in step.items()} for step in steps]


def compare(name: str, gradients: list[torch.Tensor], oracle: str = "reference") -> None:
    """Equal bytes on this backend and on the oracle."""
    assert differences(run(name, oracle, gradients), run(name, BACKEND, gradients)) == []


def values(shape: int | tuple[int, ...], seed: int = 0) -> torch.Tensor:
    """A normal gradient on the device."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(DEVICE)
