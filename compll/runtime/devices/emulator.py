"""The emulator device: the unchanged CUDA text, built for the CPU and run thread by thread.

Slow, and for authors of kernels: it shows wrong results, deadlocks and mismatched warp operations without a GPU, and
with $COMPLL_EMULATOR_CHECK = address | undefined | thread (and the sanitizer's library preloaded) overruns and races.
$EMULATOR_ORDER = 0 | 1 | 2 chooses the order of threads (compll/runtime/emulator/scheduler.cpp).
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from threading import Lock
from typing import assert_never

import numpy as np
import torch
from numpy.typing import NDArray

from compll.codegen.driver import Compilation
from compll.codegen.emit.cuda_launch import Exchange, Launch, LaunchStep, LibraryCall
from compll.diagnostics import CompllError, InternalError
from compll.runtime import emulator
from compll.runtime.devices.base import LoadedFunction, Segment
from compll.runtime.devices.cpu import INCLUDE, build_library
from compll.runtime.devices.launching import Launching
from compll.runtime.devices.matrices import Matrices
from compll.runtime.devices.records import Records, Workspace

SOURCES = Path(emulator.__file__).parent

_COMMON = ("-std=c++17", "-O2", "-g", "-march=native", "-fPIC", "-shared", f"-I{SOURCES}")
KERNEL_FLAGS = (*_COMMON, "-ffp-contract=off", "-fno-strict-aliasing")
#: For each check: flags of the kernels, flags of the scheduler.
CHECKS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "": ((), ()),
    "address": (("-fsanitize=address",), ("-DEMULATOR_ASAN",)),
    "undefined": (("-fsanitize=undefined", "-fno-sanitize-recover=undefined"), ()),
    "thread": (("-fsanitize=thread",), ("-DEMULATOR_TSAN",)),
}

_PAYLOADS = ("payload", "previous")

_running = Lock()  # shared memory and fibers belong to the process


@cache
def emulator_headers() -> tuple[bytes, ...]:
    """The contents of all headers that emulated text depends on."""
    device_library = sorted((INCLUDE / "compll").glob("*.cuh"))
    return tuple(p.read_bytes() for p in (*sorted(SOURCES.glob("*.h")), *device_library))


@cache
def load_scheduler(check: str) -> ctypes.CDLL:
    """The library that kernels call; loaded before them, for all to see."""
    source = (SOURCES / "scheduler.cpp").read_text()
    path = build_library("emulator", source, (*_COMMON, *CHECKS[check][1]), emulator_headers())
    return ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)


def _check() -> str:
    check = os.environ.get("COMPLL_EMULATOR_CHECK", "")
    if check not in CHECKS:
        raise CompllError(f"COMPLL_EMULATOR_CHECK needs one of {', '.join(sorted(CHECKS)[1:])}, got `{check}`")
    return check


def host_text(cuda: str, kernels: Sequence[str]) -> str:
    """CUDA text as C++: the emulator's words in front, an entry for each kernel behind."""
    entries = "".join(f"EMULATOR_EXPORT({kernel})\n" for kernel in kernels)
    return f'#include "emulator.h"\n{cuda}\n{entries}'


@dataclass(frozen=True)
class EmulatedFunction:
    """One loaded function; calls from several threads wait for each other."""

    name: str
    library: ctypes.CDLL
    launching: Launching
    records: Records

    def __call__(self, segments: Sequence[Segment], threads: int | None = None) -> None:
        """Run on every segment, in this thread. Raises InternalError where the emulator complains."""
        with _running:
            whole = [_with_whole_words(segment) for segment in segments]
            workspace = Workspace()
            records = self.records.table(whole, workspace)
            scratch = np.zeros(self.launching.scratch_bytes(whole) // 8 + 1, np.int64)
            pointers = self.launching.scratch_table(whole, scratch.ctypes.data)
            table = np.ascontiguousarray(np.concatenate([records, pointers], axis=1))
            for step in self.launching.function.steps:
                self._step(step, table, whole, workspace)
            for given, used in zip(segments, whole, strict=True):
                _copy_back(given, used)

    def _step(
        self, step: LaunchStep, table: NDArray[np.int64], segments: Sequence[Segment], workspace: Workspace
    ) -> None:
        match step:
            case Launch():
                self._launch(step, table, self.launching.tiles(step, segments))
            case LibraryCall(step=product):
                names = [f.name for f in self.launching.function.record]
                for record, segment in zip(table, segments, strict=True):
                    Matrices(
                        plan=self.launching.plan, segment=segment, addresses=dict(zip(names, record.tolist())),
                        environment=self.launching.environment(segment.environment), workspace=workspace,
                    ).multiply(product)  # fmt: skip
            case Exchange():
                pass  # alone, the mean over all ranks is the own value
            case _:
                assert_never(step)

    def _launch(self, launch: Launch, table: NDArray[np.int64], tiles: NDArray[np.uint32]) -> None:
        entry = getattr(self.library, f"launch_{launch.function}")
        entry.argtypes = [ctypes.c_uint, ctypes.c_uint, ctypes.c_void_p, ctypes.c_void_p]
        if entry(len(tiles), launch.block, table.ctypes.data, tiles.ctypes.data) != 0:
            raise InternalError(f"emulator: kernel `{launch.function}` of `{self.name}` misbehaved, see stderr")


def _with_whole_words(segment: Segment) -> Segment:
    """The segment with payloads of whole, aligned words, as kernels need them."""
    arrays = {name: _padded(array) if name in _PAYLOADS else array for name, array in segment.arrays.items()}
    return Segment(arrays=arrays, environment=segment.environment, key=segment.key)


def _padded(payload: torch.Tensor) -> torch.Tensor:
    if payload.numel() % 4 == 0 and payload.data_ptr() % 4 == 0:
        return payload
    padded = torch.zeros(-(-payload.numel() // 4) * 4, dtype=torch.uint8)
    padded[: payload.numel()] = payload
    return padded


def _copy_back(given: Segment, used: Segment) -> None:
    payload = given.arrays.get("payload")
    if payload is not None and used.arrays["payload"] is not payload:
        payload.copy_(used.arrays["payload"][: payload.numel()])


class EmulatorDevice:
    """Runs generated CUDA on this machine's CPU."""

    @property
    def name(self) -> str:
        return "emulator"

    def load(self, compilation: Compilation, function: str) -> LoadedFunction:
        """Build (or find) the program's text as C++ and look up the function. Raises as `build_library` does."""
        program = compilation.program
        kernels = [name for plan in compilation.plans.values() for name in _kernel_names(Launching(program, plan))]
        check = _check()
        load_scheduler(check)
        text = host_text(compilation.source("cuda"), kernels)
        path = build_library(f"{program.name}-emulated", text, (*KERNEL_FLAGS, *CHECKS[check][0]), emulator_headers())
        plan = compilation.plans[function]
        return EmulatedFunction(
            name=f"{program.name}.{function}",
            library=ctypes.CDLL(str(path)),
            launching=Launching(program, plan),
            records=Records(program, plan),
        )


def _kernel_names(launching: Launching) -> list[str]:
    names = [step.function for step in launching.function.steps if isinstance(step, Launch)]
    return list(dict.fromkeys(names))
