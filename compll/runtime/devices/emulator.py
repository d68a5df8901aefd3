"""The emulator device: the unchanged CUDA text, built for the CPU and run thread by thread.

Slow, and for authors of kernels: it shows wrong results, deadlocks and mismatched warp operations without a GPU, and
with $COMPLL_EMULATOR_CHECK = address | undefined | thread (and the sanitizer's library preloaded) overruns and races.
$EMULATOR_ORDER = 0 | 1 | 2 chooses the order of threads (compll/runtime/emulator/scheduler.cpp).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from threading import Lock

import numpy as np
import torch
from numpy.typing import NDArray

from compll.codegen import ir
from compll.codegen.driver import Compilation
from compll.codegen.emit.cuda import cuda_merge
from compll.codegen.emit.cuda_launch import THREADS, Launch, LibraryCall
from compll.codegen.rounds import exchanged_by
from compll.runtime.devices.base import LoadedFunction, LoadedMerge, Segment, Sums
from compll.runtime.devices.call import Call
from compll.runtime.devices.emulation import RESIDENT, Emulation, chosen_check
from compll.runtime.devices.launching import BARRIER_BYTES, Kernels, Launching
from compll.runtime.devices.merge_launching import MergeLaunching
from compll.runtime.devices.records import Records, Workspace
from compll.runtime.devices.turns import TurnByTurn

_PAYLOADS = ("payload", "previous")

_running = Lock()  # shared memory and fibers belong to the process


@dataclass(frozen=True)
class EmulatedFunction:
    """One loaded function; calls from several threads wait for each other."""

    name: str
    kernels: Emulation
    launching: Launching
    records: Records

    def __call__(self, segments: Sequence[Segment], threads: int | None = None) -> None:
        """Run on every segment, in this thread. Raises InternalError where the emulator complains."""
        for _ in self.rounds(segments):
            pass  # alone, the mean over all ranks is the own value

    @property
    def exchanged(self) -> Sequence[ir.Value]:
        return exchanged_by(self.launching.plan)

    def rounds(self, segments: Sequence[Segment], threads: int | None = None) -> Iterator[list[torch.Tensor]]:
        """As `LoadedFunction.rounds` says. Raises as a call does."""
        whole, workspace = [_with_whole_words(segment) for segment in segments], Workspace()
        records = self.records.table(whole, workspace)
        scratch = np.zeros(self.launching.scratch_bytes(whole) // 8, np.int64)
        pointers = self.launching.scratch_table(whole, scratch.ctypes.data)
        table = np.ascontiguousarray(np.concatenate([records, pointers], axis=1))
        call = Call(launching=self.launching, segments=whole, words=table, workspace=workspace)
        for steps, exchanged in self.launching.parts():
            with _running:
                for step in steps:
                    if isinstance(step, LibraryCall):
                        call.multiply(step.step)
                    else:
                        self._launch(step, table, whole)
            if exchanged is not None:
                yield call.tensors(exchanged)
        for given, used in zip(segments, whole, strict=True):
            _copy_back(given, used)

    def _launch(self, launch: Kernels, table: NDArray[np.int64], segments: Sequence[Segment]) -> None:
        tables = self.launching.tables(launch, segments)
        pointers = [table.ctypes.data, tables.rows.ctypes.data]
        if isinstance(launch, Launch):
            self.kernels.launch(launch.function, tables.tiles, launch.block, pointers)
            return
        barrier = np.zeros(BARRIER_BYTES, np.uint8)
        pointers.append(barrier.ctypes.data)
        self.kernels.launch(launch.function, min(tables.tiles, RESIDENT), THREADS, pointers, together=True)


@dataclass(frozen=True)
class EmulatedMerge:
    """A loaded merge; calls from several threads wait for each other."""

    kernels: Emulation
    launching: MergeLaunching

    def __call__(self, sums: Sums, threads: int | None = None) -> None:
        """As `LoadedMerge` says. Raises InternalError where the emulator complains."""
        whole = replace(sums, rows=[[_with_whole_words(segment) for segment in row] for row in sums.rows])
        tables = self.launching.tables(whole)
        words, memory = [], []
        for part in self.launching.parts(whole):
            workspace = Workspace()
            scratch = np.zeros(part.launching.scratch_bytes(part.segments, part.turns) // 8, np.int64)
            records = part.records.table(part.segments, workspace, part.turns)
            pointers = part.launching.scratch_table(part.segments, scratch.ctypes.data, part.turns)
            words.append(np.ascontiguousarray(np.concatenate([records, pointers], axis=1)))
            memory += [workspace, scratch]
        arguments = [*(table.ctypes.data for table in words), tables.rows.ctypes.data]
        blocks, together, barrier = tables.tiles, self.launching.together, np.zeros(BARRIER_BYTES, np.uint8)
        if together:
            blocks = min(blocks, RESIDENT)
            arguments.append(barrier.ctypes.data)
        with _running:
            self.kernels.launch(self.launching.launch.function, blocks, THREADS, arguments, together=together)


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
        program, plan = compilation.program, compilation.plans[function]
        return EmulatedFunction(
            name=f"{program.name}.{function}", kernels=_kernels(compilation), launching=Launching(program, plan),
            records=Records(program, plan),
        )  # fmt: skip

    def load_merge(self, compilation: Compilation) -> LoadedMerge:
        launching = MergeLaunching.of(compilation)
        if launching is None:
            return TurnByTurn(self.load(compilation, "decode"), self.load(compilation, "decode_add"))
        return EmulatedMerge(_kernels(compilation), launching)


def _kernels(compilation: Compilation) -> Emulation:
    """All kernels of the program's text, built or found."""
    program = compilation.program
    launches = [launch for plan in compilation.plans.values() for launch in Launching(program, plan).launches]
    names = [launch.function for launch in launches]
    merge = cuda_merge(compilation.plans)
    if merge is not None:
        names.append(merge.launch.function)
    text = compilation.source("cuda")
    return Emulation(f"{program.name}-emulated", text, list(dict.fromkeys(names)), chosen_check())
