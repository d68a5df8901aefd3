"""The CUDA device: generated CUDA through CuPy, on torch's current stream and torch's memory. The only user of CuPy.

Import it where there is a GPU only (see `presence.py`). A call launches kernels and returns: it waits for nothing,
and can be captured in a CUDA graph once the same function has run before (that loads its code).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

import cupy
import numpy as np
import torch

from compll.codegen import ir
from compll.codegen.driver import Compilation
from compll.codegen.emit.cuda import emit
from compll.codegen.emit.cuda_launch import THREADS, LibraryCall, Phases
from compll.codegen.rounds import exchanged_by
from compll.diagnostics import CompllError, InternalError
from compll.runtime.devices.base import LoadedFunction, LoadedMerge, Segment, Sums
from compll.runtime.devices.call import Call
from compll.runtime.devices.cuda_batch import (
    Batch,
    Grid,
    Lane,
    make_batch,
    make_merge_batch,
    upload,
)
from compll.runtime.devices.cuda_code import build, target_of
from compll.runtime.devices.launching import Kernels, Launching
from compll.runtime.devices.merge_launching import MergeLaunching
from compll.runtime.devices.records import Records, Workspace
from compll.runtime.devices.turns import TurnByTurn
from compll.runtime.rounds import in_step


def available() -> str | None:
    """None where CuPy can compile and run kernels, else the reason in one line."""
    try:
        if cupy.cuda.runtime.getDeviceCount() == 0:
            return "no CUDA device"
    except cupy.cuda.runtime.CUDARuntimeError as problem:
        return f"CuPy cannot use the NVIDIA driver: {problem}"
    try:
        cupy.cuda.nvrtc.getVersion()
    except (RuntimeError, OSError, ImportError) as problem:
        first = (str(problem).splitlines() or [type(problem).__name__])[0]
        return f"CuPy finds no NVRTC (the package `nvidia-cuda-nvrtc` has it): {first}"
    return None


@dataclass
class Code:
    """The kernels of a compilation, compiled and loaded for a GPU when first wanted.

    A module launches all its kernels in one way, so those of cooperative launches come from a second one.
    """

    compilation: Compilation
    _modules: dict[tuple[int, bool, bool], Any] = field(default_factory=dict)
    _kernels: dict[tuple[int, bool, str], Any] = field(default_factory=dict)
    _resident: dict[tuple[int, bool, str], int] = field(default_factory=dict)

    def compile(self, index: int, wide: bool = False, together: bool = False) -> Any:
        """The module for GPU `index`; `wide` for positions of 64 bits, `together` for cooperative launches.

        Raises as `build` and `target_of` do.
        """
        key = (index, wide, together)
        if key not in self._modules:
            nvrtc = cupy.cuda.nvrtc
            target = target_of(torch.cuda.get_device_capability(index), nvrtc)
            path = build(self.compilation.program.name, self._text(wide), target, nvrtc)
            self._modules[key] = cupy.RawModule(path=str(path), enable_cooperative_groups=together)
        return self._modules[key]

    def _text(self, wide: bool) -> str:
        if not wide:
            return self.compilation.source("cuda")
        return emit(self.compilation.program.name, tuple(self.compilation.plans.values()), wide=True)

    def kernel(self, index: int, wide: bool, name: str, together: bool) -> Any:
        """A kernel's handle, which belongs to one GPU."""
        key = (index, wide, name)
        if key not in self._kernels:
            self._kernels[key] = self.compile(index, wide, together).get_function(name)
        return self._kernels[key]

    def resident(self, index: int, wide: bool, name: str) -> int:
        """How many blocks of a cooperative launch a GPU keeps alive together."""
        key = (index, wide, name)
        if key not in self._resident:
            handle = self.kernel(index, wide, name, together=True).kernel.ptr
            each = cupy.cuda.driver.occupancyMaxActiveBlocksPerMultiprocessor(handle, THREADS, 0)
            self._resident[key] = each * torch.cuda.get_device_properties(index).multi_processor_count
        return self._resident[key]

    def start(
        self, batch: Batch, name: str, grid: Grid, records: Sequence[int], *, together: bool, threads: int = THREADS
    ) -> None:
        """Launch on the current GPU and stream: a block for each tile, or as many as can be alive together.

        `records` are the addresses of record tables. Raises InternalError where CUDA refuses.
        """
        index = torch.cuda.current_device()
        blocks, pointers = grid.tiles, [*records, grid.address]
        if together:
            blocks = min(blocks, self.resident(index, batch.wide, name))
            pointers.append(batch.barrier)
        kernel = self.kernel(index, batch.wide, name, together)
        try:
            kernel((blocks,), (threads,), tuple(map(np.uint64, pointers)))  # 8 bytes each
        except RuntimeError as problem:
            program = self.compilation.program.name
            raise InternalError(
                f"CUDA refused kernel `{name}` of `{program}` ({problem}); the cause may be earlier work"
            ) from problem


@dataclass(frozen=True)
class CudaFunction:
    """One loaded function; safe to call from several threads, on any GPU, on any stream."""

    name: str
    launching: Launching
    records: Records
    code: Code
    _lanes: dict[tuple[int, int], Lane] = field(default_factory=dict)

    def __call__(self, segments: Sequence[Segment], threads: int | None = None) -> None:
        """Run on every segment, on the current stream of its GPU; `threads` has no meaning here.

        Raises InternalError where CUDA refuses a launch.
        """
        for device, positions in _by_device(segments):
            for _ in self._run([segments[at] for at in positions], device):
                pass  # alone, the mean over all ranks is the own value

    @property
    def exchanged(self) -> Sequence[ir.Value]:
        return exchanged_by(self.launching.plan)

    def rounds(self, segments: Sequence[Segment], threads: int | None = None) -> Iterator[list[torch.Tensor]]:
        """As `LoadedFunction.rounds` says. Raises as a call does, and where the stream is not the one of before."""
        groups = _by_device(segments)
        return in_step([(positions, self._run([segments[at] for at in positions], d)) for d, positions in groups])

    def _run(self, segments: Sequence[Segment], device: torch.device) -> Iterator[list[torch.Tensor]]:
        """Launch what comes before each exchange, and yield what that is about."""
        stream = torch.cuda.current_stream(device)
        lane = self._lanes.setdefault((device.index or 0, stream.cuda_stream), Lane())
        with torch.cuda.device(device), lane.lock:
            key = tuple(tuple(segment.environment.values()) for segment in segments)
            batch = lane.batch(key, lambda: make_batch(self.launching, segments, device))
            workspace = Workspace(device)
            words = np.concatenate([self.records.table(segments, workspace), batch.scratch_pointers[0]], axis=1)
            table = upload(words, device)
        call = Call(launching=self.launching, segments=segments, words=words, workspace=workspace)
        grids = iter(batch.grids)
        for steps, exchanged in self.launching.parts():
            if torch.cuda.current_stream(device).cuda_stream != stream.cuda_stream:
                raise CompllError(f"`{self.name}` has to go on on the stream on which it began")
            with torch.cuda.device(device), lane.lock, _cupy_stream(device.index or 0, stream):
                for step in steps:
                    if isinstance(step, LibraryCall):
                        call.multiply(step.step)
                    else:
                        self._launch(step, table.data_ptr(), next(grids), batch)
            if exchanged is not None:
                yield call.tensors(exchanged)

    def _launch(self, step: Kernels, table: int, grid: Grid, batch: Batch) -> None:
        together = isinstance(step, Phases)
        threads = THREADS if isinstance(step, Phases) else step.block
        self.code.start(batch, step.function, grid, [table], together=together, threads=threads)


@dataclass(frozen=True)
class CudaMerge:
    """A loaded merge; safe to call from several threads, on any GPU, on any stream."""

    launching: MergeLaunching
    code: Code
    _lanes: dict[tuple[int, int], Lane] = field(default_factory=dict)

    def __call__(self, sums: Sums, threads: int | None = None) -> None:
        """As `LoadedMerge` says, on the current streams of the GPUs. Raises as `Code.start` does."""
        for device, positions in _by_device([row[0] for row in sums.rows]):
            stream = torch.cuda.current_stream(device)
            lane = self._lanes.setdefault((device.index or 0, stream.cuda_stream), Lane())
            with torch.cuda.device(device), lane.lock, _cupy_stream(device.index or 0, stream):
                rows, divisors = ([given[at] for at in positions] for given in (sums.rows, sums.divisors))
                self._run(Sums(rows=rows, divisors=divisors, add=sums.add), lane, device)

    def _run(self, sums: Sums, lane: Lane, device: torch.device) -> None:
        launching = self.launching
        batch = lane.batch(launching.key(sums), lambda: make_merge_batch(launching, sums, device))
        parts = launching.parts(sums)
        workspaces = [Workspace(device) for _ in parts]
        words = [
            np.concatenate([part.records.table(part.segments, workspace, part.turns), scratch], axis=1)
            for part, workspace, scratch in zip(parts, workspaces, batch.scratch_pointers, strict=True)
        ]
        uploaded = upload(np.concatenate([table.reshape(-1) for table in words]), device)
        ends = accumulate(table.nbytes for table in words)
        addresses = [uploaded.data_ptr() + end - table.nbytes for table, end in zip(words, ends, strict=True)]
        self.code.start(batch, launching.launch.function, batch.grids[0], addresses, together=launching.together)


def _by_device(segments: Sequence[Segment]) -> list[tuple[torch.device, list[int]]]:
    """The positions of the segments of each GPU."""
    groups: dict[torch.device, list[int]] = {}
    for at, segment in enumerate(segments):
        groups.setdefault(next(iter(segment.arrays.values())).device, []).append(at)
    return list(groups.items())


#: CuPy's objects for torch's streams, by GPU and address. Kept: one that goes away may take the stream with it.
_streams: dict[tuple[int, int], Any] = {}


def _cupy_stream(index: int, stream: torch.cuda.Stream) -> Any:
    """Torch's stream as a context in which CuPy launches on it."""
    key = (index, stream.cuda_stream)
    if key not in _streams:
        if hasattr(cupy.cuda.Stream, "from_external"):
            _streams[key] = cupy.cuda.Stream.from_external(stream)
        else:  # before CuPy 14
            _streams[key] = cupy.cuda.ExternalStream(stream.cuda_stream, index)
    return _streams[key]


class CudaDevice:
    """Compiles and loads functions for this machine's GPUs."""

    @property
    def name(self) -> str:
        return "cuda"

    def load(self, compilation: Compilation, function: str) -> LoadedFunction:
        """Compile (or find) the program's kernels for the current GPU. Raises as `Code.compile` does."""
        program, plan = compilation.program, compilation.plans[function]
        code = Code(compilation)
        code.compile(torch.cuda.current_device())
        return CudaFunction(
            name=f"{program.name}.{function}", launching=Launching(program, plan), records=Records(program, plan),
            code=code,
        )  # fmt: skip

    def load_merge(self, compilation: Compilation) -> LoadedMerge:
        """Raises as `load` does."""
        launching = MergeLaunching.of(compilation)
        if launching is None:
            return TurnByTurn(self.load(compilation, "decode"), self.load(compilation, "decode_add"))
        code = Code(compilation)
        code.compile(torch.cuda.current_device(), together=launching.together)
        return CudaMerge(launching, code)
