"""Every shipped program gives the interpreter's bytes when compiled for the CPU, with any number of threads."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
import torch
from differential.gradients import KINDS, MATRICES, VECTORS, Run, differences, gradient

import compll
from compll.runtime.devices import available_devices

ALGORITHMS = sorted(p.stem for p in Path(__file__).parents[2].glob("algorithms/*.cll"))
#: Matrix products come from the platform's library.
INEXACT = {"powersgd"}
EXACT = [name for name in ALGORITHMS if name not in INEXACT]

pytestmark = pytest.mark.skipif("cpu" not in available_devices(), reason="needs a C++ compiler")


@cache
def load(name: str, backend: str) -> compll.Compressor:
    return compll.load(name, backend=backend)


def compare(name: str, gradients: list[torch.Tensor]) -> None:
    expected = Run(load(name, "reference")).steps(gradients)
    for threads in (1, 2):
        found = Run(load(name, "cpu"), threads=threads).steps(gradients)
        assert differences(expected, found) == []


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("n", VECTORS)
def test_vectors(name: str, n: int) -> None:
    compare(name, [gradient(n, "normal", seed) for seed in range(2)])


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("shape", MATRICES, ids=str)
def test_matrices(name: str, shape: tuple[int, int]) -> None:
    compare(name, [gradient(shape, "normal", seed) for seed in range(2)])


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("kind", KINDS)
def test_kinds(name: str, kind: str) -> None:
    compare(name, [gradient((31, 65), kind), gradient((31, 65), "normal")])


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=["f16", "bf16"])
def test_narrow_gradients(name: str, dtype: torch.dtype) -> None:
    compare(name, [gradient((17, 71), kind).to(dtype) for kind in ("normal", "awkward")])


@pytest.mark.parametrize("name", sorted(INEXACT))
def test_products_agree_closely(name: str) -> None:
    gradients = [gradient((300, 70), "normal", seed) for seed in range(3)]
    expected = Run(load(name, "reference")).steps(gradients)
    found = Run(load(name, "cpu"), threads=2).steps(gradients)
    for a, b in zip(expected, found, strict=True):
        torch.testing.assert_close(a["decoded"], b["decoded"], rtol=1e-3, atol=1e-3)
