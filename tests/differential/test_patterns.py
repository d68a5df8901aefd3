"""Every sink with every element type and kind of space: compiled for the CPU, bit for bit as interpreted."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path

import pytest
import torch
from differential.gradients import KINDS, Run, differences, gradient
from differential.sources import MATRIX_PROGRAMS, OVERWRITTEN_KEY, VECTOR_PROGRAMS

import compll
from compll.runtime.devices import available_devices

LENGTHS = (1, 2, 31, 32, 33, 63, 64, 65, 1023, 1024, 1025, 4095, 4096, 4097, 65537)
MATRICES = ((1, 1), (1, 5000), (300, 1), (5, 64), (63, 65), (5, 4097), (2, 40000))

pytestmark = pytest.mark.skipif("cpu" not in available_devices(), reason="needs a C++ compiler")


@cache
def load(text: str, backend: str) -> compll.Compressor:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "probe.cll"
        path.write_text(text)
        return compll.load(path, backend=backend)


def compare(text: str, gradients: list[torch.Tensor]) -> None:
    expected = Run(load(text, "reference")).steps(gradients)
    for threads in (1, 2, 3):
        found = Run(load(text, "cpu"), threads=threads).steps(gradients)
        assert differences(expected, found) == [], f"{tuple(gradients[0].shape)}, {threads} threads"


@pytest.mark.parametrize("name", VECTOR_PROGRAMS)
def test_vectors(name: str) -> None:
    for n in LENGTHS:
        compare(VECTOR_PROGRAMS[name], [gradient(n, "normal", seed) for seed in range(2)])


@pytest.mark.parametrize("name", VECTOR_PROGRAMS)
def test_awkward_vectors(name: str) -> None:
    for kind in KINDS:
        compare(VECTOR_PROGRAMS[name], [gradient(4099, kind)])


@pytest.mark.parametrize("name", MATRIX_PROGRAMS)
def test_matrices(name: str) -> None:
    for shape in MATRICES:
        compare(MATRIX_PROGRAMS[name], [gradient(shape, kind) for kind in ("normal", "ties")])


@pytest.mark.parametrize("name", MATRIX_PROGRAMS)
def test_awkward_matrices(name: str) -> None:
    for kind in KINDS:
        compare(MATRIX_PROGRAMS[name], [gradient((37, 129), kind)])


# --- long spaces: the selection that samples a threshold -----

LONG = 40_000
SELECTIONS = {"plain": VECTOR_PROGRAMS["selection"], "key overwritten": OVERWRITTEN_KEY}


def sampled_positions(n: int) -> torch.Tensor:
    """Where include/compll/select.hpp looks for a threshold, so that a test can mislead it."""
    groups = min(16384, n // 16) // 8
    stride = n // groups
    starts = [g * stride + ((g * 8 * 0x9E3779B97F4A7C15) % 2**64 >> 32) % (stride - 7) for g in range(groups)]
    return torch.tensor([start + i for start in starts for i in range(8)])


@pytest.mark.parametrize("name", SELECTIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_long_selection(name: str, kind: str) -> None:
    compare(SELECTIONS[name], [gradient(LONG, kind), gradient(LONG, "normal")])


@pytest.mark.parametrize("name", SELECTIONS)
def test_a_sample_that_misleads(name: str) -> None:
    """All that is sampled is larger than all else, so that the first threshold keeps too little."""
    g = gradient(LONG, "normal")
    g[sampled_positions(LONG)] += 100.0
    compare(SELECTIONS[name], [g, gradient(LONG, "normal", 1)])


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 0.0, -2.0])
def test_half_of_one_value(value: float) -> None:
    """States may hold NaN and infinity; a selection of them is as exact as any."""
    text = OVERWRITTEN_KEY.replace("s = s * 0.25 + 1.0;", f"s = g > 0.0 ? {_literal(value)} : g;")
    compare(text, [gradient(LONG, "normal", seed) for seed in range(3)])


def _literal(value: float) -> str:
    if value != value:
        return "0.0 / 0.0"
    return "inf" if value == float("inf") else f"{value}"
