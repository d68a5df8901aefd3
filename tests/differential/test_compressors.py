"""Compressors that do not ship give the interpreter's bytes on the CPU and the emulator, in any order of threads."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path

import pytest
import torch
from differential.compressors import COMPRESSORS
from differential.gradients import Run, differences, gradient

import compll
from compll.runtime.devices import available_devices

SHAPES: tuple[tuple[int, ...], ...] = ((1,), (7,), (1000,), (5000,), (33, 65), (1, 4096), (3, 5, 7))
AWKWARD = ("awkward", "zeros", "extreme", "ties")
DTYPES = (torch.float32, torch.float16, torch.bfloat16)

pytestmark = pytest.mark.skipif("cpu" not in available_devices(), reason="needs a C++ compiler")


@cache
def load(name: str, backend: str) -> compll.Compressor:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{name}.cll"
        path.write_text(COMPRESSORS[name])
        return compll.load(path, backend=backend)


def steps() -> list[list[torch.Tensor]]:
    """Gradients of one run each: three steps of any shape, awkward ones, narrow ones."""
    plain = [[gradient(shape, "normal", seed) for seed in range(3)] for shape in SHAPES]
    return plain + [[gradient((33, 65), kind).to(dtype) for kind in AWKWARD] for dtype in DTYPES]


@pytest.mark.parametrize("name", COMPRESSORS)
def test_cpu(name: str) -> None:
    for gradients in steps():
        expected = Run(load(name, "reference")).steps(gradients)
        for threads in (1, 2):
            assert differences(expected, Run(load(name, "cpu"), threads).steps(gradients)) == []


@pytest.mark.parametrize("name", COMPRESSORS)
def test_emulator(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for gradients in steps():
        expected = Run(load(name, "reference")).steps(gradients)
        for order in ("0", "1", "2"):
            monkeypatch.setenv("EMULATOR_ORDER", order)
            assert differences(expected, Run(load(name, "emulator")).steps(gradients)) == []
