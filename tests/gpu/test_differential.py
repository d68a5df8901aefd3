"""CUDA kernels give the interpreter's bytes: every shipped program and every pattern, sizes, kinds and dtypes."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from differential.gradients import KINDS, MATRICES, VECTORS, gradient
from differential.patterns import PATTERNS
from gpu.subject import BACKEND, EMULATED, EXACT, INEXACT, compare, needs_backend, needs_gpu, run

pytestmark = needs_backend

LENGTHS = (1, 33, 1025, 5000) if EMULATED else VECTORS
SHAPES = ((5, 4097),) if EMULATED else MATRICES
#: Around the tile of 16384 positions, the length from which selections sample, and the grid of one wave.
LARGE = (16383, 16385, 131071, 131073, 1_000_003, 4_194_309)


@pytest.mark.parametrize("name", EXACT)
def test_vectors(name: str) -> None:
    for n in LENGTHS:
        compare(name, [gradient(n, "normal", seed) for seed in range(2)])


@pytest.mark.parametrize("name", EXACT)
def test_matrices(name: str) -> None:
    for shape in SHAPES:
        compare(name, [gradient(shape, "normal", seed) for seed in range(2)])


@pytest.mark.parametrize("name", EXACT)
def test_kinds(name: str) -> None:
    for kind in KINDS:
        compare(name, [gradient((31, 65), kind), gradient((31, 65), "normal")])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=["f16", "bf16"])
@pytest.mark.parametrize("name", EXACT)
def test_narrow_gradients(name: str, dtype: torch.dtype) -> None:
    compare(name, [gradient((17, 71), kind).to(dtype) for kind in ("normal", "awkward")])


@pytest.mark.parametrize("name", PATTERNS)
def test_patterns(name: str, tmp_path: Path) -> None:
    text, needs_matrix = PATTERNS[name]
    path = tmp_path / f"{name}.cll"
    path.write_text(text)
    for shape in ((1, 300), (63, 65), (2, 17000)) if needs_matrix else (1, 64, 17000):
        compare(str(path), [gradient(shape, kind) for kind in ("normal", "awkward")])


@pytest.mark.parametrize("name", sorted(INEXACT))
def test_products_agree_closely(name: str) -> None:
    gradients = [gradient((300, 70), "normal", seed) for seed in range(3)]
    for a, b in zip(run(name, "reference", gradients), run(name, BACKEND, gradients), strict=True):
        torch.testing.assert_close(a["decoded"], b["decoded"], rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("mark", [pytest.param("cpu", marks=needs_gpu)])
def test_large(name: str, mark: str) -> None:
    """Against the CPU backend, which other tests hold to the interpreter."""
    for n in LARGE:
        compare(name, [gradient(n, kind, 1) for kind in ("normal", "ties")], oracle=mark)
