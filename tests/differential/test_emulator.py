"""Generated CUDA, run thread by thread on the CPU, gives the interpreter's bytes in every order of threads."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from differential.gradients import Run, differences, gradient
from differential.patterns import PATTERNS

import compll
from compll.runtime.devices import cpu

ALGORITHMS = sorted(p.stem for p in Path(__file__).parents[2].glob("algorithms/*.cll"))
#: Matrix products come from the platform's library.
INEXACT = {"powersgd"}
EXACT = [name for name in ALGORITHMS if name not in INEXACT]
FIRST, LAST, RANDOM = "0", "1", "2"
ORDERS = (FIRST, LAST, RANDOM)

pytestmark = pytest.mark.skipif(cpu.available() is not None, reason="needs a C++ compiler")


def compare(name: str, gradients: list[torch.Tensor]) -> None:
    expected = Run(compll.load(name, backend="reference")).steps(gradients)
    found = Run(compll.load(name, backend="emulator")).steps(gradients)
    assert differences(expected, found) == []


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", EXACT)
def test_shipped_programs(name: str, order: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EMULATOR_ORDER", order)
    for n in (1, 33, 1025, 5000):
        compare(name, [gradient(n, "normal", seed) for seed in range(2)])
    compare(name, [gradient((5, 1025), kind) for kind in ("awkward", "ties")])


@pytest.mark.parametrize("order", (FIRST, RANDOM))
@pytest.mark.parametrize("name", PATTERNS)
def test_patterns(name: str, order: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("EMULATOR_ORDER", order)
    text, needs_matrix = PATTERNS[name]
    path = tmp_path / f"{name}.cll"
    path.write_text(text)
    shapes: Sequence[int | tuple[int, int]] = ((1, 300), (300, 1), (63, 65), (5, 4097), (2, 17000))
    for shape in shapes if needs_matrix else (1, 31, 64, 4097, 17000):
        compare(str(path), [gradient(shape, kind) for kind in ("normal", "awkward")])


@pytest.mark.parametrize("kind", ["normal", "constant", "onehot"])
def test_a_selection_from_a_sample(kind: str) -> None:
    """From 2^17 elements on, candidates are those above a threshold taken from a sample."""
    compare("topk", [gradient(200_001, kind, seed) for seed in range(2)])


def test_a_sample_that_misses() -> None:
    """Values so that the sampled positions promise far more large keys than there are: all are looked at again."""
    n = 1 << 17
    positions = torch.tensor([_sample_position(index, n) for index in range(4096)])
    g = torch.zeros(n)
    g[positions] = 1.0 + torch.arange(4096) / 4096
    g[7] = 0.5
    compare("topk", [g, gradient(n, "normal")])


def _sample_position(index: int, extent: int) -> int:
    """compll::sample_position of select.cuh."""
    start, end = index * extent // 4096, (index + 1) * extent // 4096
    return start + ((index * 0x9E3779B1 % 2**32) * (end - start) >> 32)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", ["topk", "onebit", "adtopk", "qsgd"])
def test_narrow_gradients(name: str, dtype: torch.dtype) -> None:
    compare(name, [gradient((17, 71), kind).to(dtype) for kind in ("normal", "awkward")])


@pytest.mark.parametrize("name", sorted(INEXACT))
def test_products_agree_closely(name: str) -> None:
    gradients = [gradient((300, 70), "normal", seed) for seed in range(3)]
    expected = Run(compll.load(name, backend="reference")).steps(gradients)
    found = Run(compll.load(name, backend="emulator")).steps(gradients)
    for a, b in zip(expected, found, strict=True):
        torch.testing.assert_close(a["decoded"], b["decoded"], rtol=1e-3, atol=1e-3)
