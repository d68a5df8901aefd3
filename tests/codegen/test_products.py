"""compll/matrix.hpp against NumPy in f64: every shape of the walk, either operand turned, one thread and two."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import numpy as np
import pytest

import compll.codegen
from compll.runtime.devices import cpu

SOURCE = """
#include <compll/cpu.hpp>
extern "C" void product(const float* left, bool left_turned, const float* right, bool right_turned, int64_t m,
                        int64_t inner, int64_t n, int threads, float* result) {
    const compll::Strides l{left_turned ? 1 : inner, left_turned ? m : 1};
    const compll::Strides r{right_turned ? 1 : n, right_turned ? inner : 1};
    compll::multiply(left, l, right, r, m, inner, n, threads, result);
}
"""

#: m, inner, n: narrow results and wide ones, panels that are not full, what is left over by lanes and by fours.
SHAPES = [
    (1, 1, 1), (5, 0, 3), (0, 4, 4), (33, 47, 1), (33, 47, 3), (17, 100, 16), (17, 100, 17), (700, 33, 5),
    (129, 65, 130), (600, 4, 700), (1100, 1000, 4),
]  # fmt: skip


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    if reason := cpu.available():
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("products")
    (folder / "product.cpp").write_text(SOURCE)
    include = Path(compll.codegen.__file__ or "").parent / "include"
    command = ["g++", *cpu.FLAGS, f"-I{include}", folder / "product.cpp", "-o", folder / "product.so"]
    subprocess.run(command, check=True)
    return ctypes.CDLL(str(folder / "product.so"))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_products_are_those_of_numpy(library: ctypes.CDLL, shape: tuple[int, int, int]) -> None:
    m, inner, n = shape
    random = np.random.default_rng(0)
    left, right = random.standard_normal((m, inner), np.float32), random.standard_normal((inner, n), np.float32)
    exact = left.astype(np.float64) @ right
    bound = 1e-6 * (np.abs(left).astype(np.float64) @ np.abs(right)) + 1e-30
    for left_turned in (False, True):
        for right_turned in (False, True):
            found = [_product(library, left, left_turned, right, right_turned, threads) for threads in (1, 2)]
            assert (np.abs(found[0] - exact) <= bound).all()
            assert np.array_equal(*found), "the number of threads changes bits"


def _product(
    library: ctypes.CDLL, left: np.ndarray, left_turned: bool, right: np.ndarray, right_turned: bool, threads: int
) -> np.ndarray:
    l, r = (np.ascontiguousarray(x.T if turned else x) for x, turned in ((left, left_turned), (right, right_turned)))
    result = np.full((left.shape[0], right.shape[1]), np.nan, np.float32)
    library.product(
        ctypes.c_void_p(l.ctypes.data), left_turned, ctypes.c_void_p(r.ctypes.data), right_turned,
        *(ctypes.c_int64(size) for size in (*left.shape, right.shape[1])), threads, ctypes.c_void_p(result.ctypes.data),
    )  # fmt: skip
    return result
