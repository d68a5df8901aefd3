"""The emulator complains about what is wrong with a kernel: deadlocks, mismatched warps, overruns, races; in blocks
that run one after the other, and in those of a cooperative launch, which are alive together."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from compll.runtime.devices import cpu
from compll.runtime.devices.emulation import RESIDENT

pytestmark = pytest.mark.skipif(cpu.available() is not None, reason="needs a C++ compiler")

KERNELS = """
#include <compll/phases.cuh>
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

// Each block writes its part, and reads that of the block before it.
__device__ unsigned neighbour() { return (blockIdx.x + gridDim.x - 1) % gridDim.x; }

extern "C" __global__ void __launch_bounds__(64) phases(
    const Segment* segments, const compll::Tile*, compll::Barrier* barrier) {
    __shared__ unsigned own;
    unsigned* const out = segments->out;
    for (unsigned round = 0; round < 3; ++round) {
        if (threadIdx.x == 63) own = 100 * round + blockIdx.x;
        __syncthreads();
        out[64 * blockIdx.x + threadIdx.x] = own;
        compll::meet(barrier);
        const unsigned read = out[64 * neighbour() + threadIdx.x];
        compll::meet(barrier);
        out[64 * blockIdx.x + threadIdx.x] = read;
    }
}
extern "C" __global__ void __launch_bounds__(64) phases_without_barrier(
    const Segment* segments, const compll::Tile*, compll::Barrier*) {
    unsigned* const out = segments->out;
    out[64 * blockIdx.x + threadIdx.x] = blockIdx.x;
    __syncthreads();
    const unsigned read = out[64 * neighbour() + threadIdx.x];
    if (read == gridDim.x) out[0] = read;
}
extern "C" __global__ void __launch_bounds__(64) last_block(
    const Segment* segments, const compll::Tile*, compll::Barrier* barrier) {
    unsigned* const out = segments->out;
    const compll::Tile tile = {0, blockIdx.x, gridDim.x, 0};
    for (unsigned round = 0; round < 2; ++round) {
        out[64 * blockIdx.x + threadIdx.x] = blockIdx.x + 1;
        if (compll::last_tile(&barrier[1].arrived, tile)) {
            for (unsigned block = 1; block < gridDim.x; ++block) out[threadIdx.x] += out[64 * block + threadIdx.x];
        }
        compll::meet(barrier);
    }
}
extern "C" __global__ void __launch_bounds__(64) one_stays_away(
    const Segment*, const compll::Tile*, compll::Barrier* barrier) {
    if (blockIdx.x > 0) compll::meet(barrier);
}
"""
NAMES = (
    "sum_of_lanes", "reversed", "without_barrier", "half_at_the_barrier", "half_a_warp", "lane_outside",
    "beyond_the_end", "phases", "phases_without_barrier", "last_block", "one_stays_away",
)  # fmt: skip
TOGETHER = NAMES[7:]

RUN = """
import sys
import numpy as np
from compll.diagnostics import InternalError
from compll.runtime.devices.emulation import RESIDENT, Emulation
from runtime.test_emulator_device import KERNELS, NAMES, TOGETHER
kernel, check = sys.argv[1:]
out = np.zeros(64 * RESIDENT, np.uint32)
segment = np.array([out.ctypes.data], np.int64)
barriers = np.zeros(4, np.uint32)
together = kernel in TOGETHER
pointers = [segment.ctypes.data, 0, barriers.ctypes.data]
status = 0
try:
    Emulation("emulator-test", KERNELS, NAMES, check).launch(
        kernel, RESIDENT if together else 1, 64, pointers if together else pointers[:2], together=together
    )
except InternalError:
    status = 1
print(status, *(out if together else out[:64]))
"""


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


@pytest.mark.parametrize("order", [0, 1, 2])
def test_phases_of_blocks_that_are_alive_together(order: int) -> None:
    neighbours = [block for block in (RESIDENT - 1, *range(RESIDENT - 1)) for _ in range(64)]
    assert run("phases", order=order) == (" ".join(map(str, [0, *(200 + block for block in neighbours)])), "")
    counted, complaints = run("last_block", order=order)
    assert complaints == "" and counted.split()[1] == str(RESIDENT * (RESIDENT + 1) // 2)


def test_a_block_that_stays_away_from_the_barrier() -> None:
    printed, complaints = run("one_stays_away")
    assert printed.split()[0] == "1"
    assert f"{RESIDENT - 1} wait for other blocks" in complaints


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


def test_a_race_between_phases() -> None:
    assert "data race" in run("phases_without_barrier", "thread")[1]
    assert run("phases", "thread")[1] == ""
    assert run("last_block", "thread")[1] == ""
