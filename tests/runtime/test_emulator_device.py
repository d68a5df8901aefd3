"""The emulator complains about what is wrong with a kernel: deadlocks, mismatched warps, overruns, races."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from compll.runtime.devices import cpu
from compll.runtime.devices.emulator import CHECKS, KERNEL_FLAGS, emulator_headers, host_text, load_scheduler

pytestmark = pytest.mark.skipif(cpu.available() is not None, reason="needs a C++ compiler")

KERNELS = """
#include <compll/place.cuh>
struct Segment { unsigned* out; };

extern "C" __global__ void __launch_bounds__(64) sum_of_lanes(const Segment* segments, const compll::Tile*) {
    unsigned total;
    segments->out[threadIdx.x] = compll::warp_prefix(threadIdx.x, total);
}
extern "C" __global__ void __launch_bounds__(64) reversed(const Segment* segments, const compll::Tile*) {
    __shared__ unsigned shared[64];
    shared[threadIdx.x] = threadIdx.x;
    __syncthreads();
    segments->out[threadIdx.x] = shared[63 - threadIdx.x];
}
extern "C" __global__ void __launch_bounds__(64) without_barrier(const Segment* segments, const compll::Tile*) {
    __shared__ unsigned shared[64];
    shared[threadIdx.x] = threadIdx.x;
    segments->out[threadIdx.x] = shared[63 - threadIdx.x];
}
extern "C" __global__ void __launch_bounds__(64) half_at_the_barrier(const Segment*, const compll::Tile*) {
    if (threadIdx.x < 32) __syncthreads();
}
extern "C" __global__ void __launch_bounds__(64) half_a_warp(const Segment*, const compll::Tile*) {
    if (threadIdx.x % 32 < 16) __syncwarp();
    else __ballot_sync(0xffffffffu, 1);
}
extern "C" __global__ void __launch_bounds__(64) lane_outside(const Segment*, const compll::Tile*) {
    if (threadIdx.x % 32 < 16) __shfl_sync(0x0000ffffu, 1, 20);
}
extern "C" __global__ void __launch_bounds__(64) beyond_the_end(const Segment* segments, const compll::Tile*) {
    __shared__ unsigned shared[64];
    shared[threadIdx.x + 1] = threadIdx.x;
    __syncthreads();
    segments->out[threadIdx.x] = shared[threadIdx.x];
}
"""
NAMES = (
    "sum_of_lanes", "reversed", "without_barrier", "half_at_the_barrier", "half_a_warp", "lane_outside",
    "beyond_the_end",
)  # fmt: skip

RUN = """
import ctypes, sys
import numpy as np
from runtime.test_emulator_device import build
kernel, check = sys.argv[1:]
library = build(check)
out = np.zeros(64, np.uint32)
segment = np.array([out.ctypes.data], np.int64)
launch = getattr(library, f"launch_{kernel}")
launch.argtypes = [ctypes.c_uint, ctypes.c_uint, ctypes.c_void_p, ctypes.c_void_p]
status = launch(1, 64, segment.ctypes.data, None)
print(status, *out)
"""


def build(check: str):  # type: ignore[no-untyped-def]
    import ctypes

    load_scheduler(check)
    text = host_text(KERNELS, NAMES)
    path = cpu.build_library("emulator-test", text, (*KERNEL_FLAGS, *CHECKS[check][0]), emulator_headers())
    return ctypes.CDLL(str(path))


def run(kernel: str, check: str = "", order: int = 0) -> tuple[str, str]:
    """(printed, complaints) of one launch in a process of its own."""
    library = {"address": "libasan.so", "thread": "libtsan.so"}.get(check)
    environment = os.environ | {"EMULATOR_ORDER": str(order), "PYTHONPATH": "tests:."}
    if library is not None:
        found = subprocess.run(["g++", f"-print-file-name={library}"], capture_output=True, text=True).stdout.strip()
        if not os.path.isabs(found):
            pytest.skip(f"needs {library}")
        environment |= {
            "LD_PRELOAD": found,
            "ASAN_OPTIONS": "detect_leaks=0:detect_stack_use_after_return=0",
            "TSAN_OPTIONS": "report_thread_leaks=0",
        }
    done = subprocess.run(
        [sys.executable, "-c", RUN, kernel, check], capture_output=True, text=True, env=environment, timeout=300
    )
    return done.stdout.strip(), done.stderr


def test_warp_operations() -> None:
    expected = [sum(range(start, lane)) for start in (0, 32) for lane in range(start, start + 32)]
    assert run("sum_of_lanes") == (" ".join(map(str, [0, *expected])), "")


@pytest.mark.parametrize("order", [0, 1, 2])
def test_a_correct_kernel_does_not_depend_on_the_order(order: int) -> None:
    assert run("reversed", order=order) == (" ".join(map(str, [0, *range(63, -1, -1)])), "")


def test_a_missing_barrier_shows_in_the_order() -> None:
    assert run("without_barrier", order=0)[0] != run("without_barrier", order=1)[0]


@pytest.mark.parametrize(
    ("kernel", "complaint"),
    [
        ("half_at_the_barrier", "threads ended while others wait at __syncthreads"),
        ("half_a_warp", "lanes of a warp meet at different operations or masks"),
        ("lane_outside", "a shuffle reads a lane outside its mask"),
    ],
)
def test_complaints(kernel: str, complaint: str) -> None:
    printed, complaints = run(kernel)
    assert printed.split()[0] == "1"
    assert complaint in complaints


def test_an_overrun_of_shared_memory() -> None:
    assert "global-buffer-overflow" in run("beyond_the_end", "address")[1]
    assert run("reversed", "address")[1] == ""


def test_a_race() -> None:
    assert "data race" in run("without_barrier", "thread")[1]
    assert run("reversed", "thread")[1] == ""
