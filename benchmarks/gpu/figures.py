"""Times: compressors as multiples of a copy beside their peers, what a call costs the host, and kernel by kernel."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from time import perf_counter
from typing import Any

import torch

import compll
from benchmarks.gpu.targets import SPEEDUPS, TARGETS
from compll.cli.benchmark.compiled import Compiled, compiled
from compll.cli.benchmark.rows import Row, measure
from compll.cli.benchmark.workload import Workload, parse_workload

#: Targets hold from here on.
TARGET_NUMEL = 1 << 26
HOST_STEPS = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelTime:
    """One kernel of an encode or decode, mean over the profiled steps."""

    name: str
    microseconds: float
    calls: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One compressor at one workload. `host_us` is how long a call of encode keeps the host, with the GPU idle."""

    row: dict[str, Any]
    host_us: float
    kernels: tuple[KernelTime, ...]
    target: tuple[float, float] | None  # floor and target, in copies
    wanted: dict[str, float]  # speedups against peers

    @property
    def verdict(self) -> str:
        """met, missed, or nothing where there is no target."""
        if self.target is None:
            return ""
        return "met" if self.row["copies"] <= self.target[1] else "missed"

    def as_json(self) -> dict[str, Any]:
        kernels = [asdict(kernel) for kernel in self.kernels]
        return self.row | {
            "host_us": self.host_us, "kernels": kernels, "target": self.target, "verdict": self.verdict,
            "wanted_speedups": self.wanted,
        }  # fmt: skip


def figures(
    names: Sequence[str], shapes: Sequence[str], backend: str, device: torch.device, rounds: int
) -> Iterator[Figure | str]:
    """One by one: each with declared feedback and, where it declares one, without. A text is why one is missing."""
    for shape in shapes:
        workload = parse_workload(shape, device)
        for name in names:
            compressor = compll.load(name, backend=backend)
            for variant in [compressor, compressor.with_feedback(False)][: 2 if compressor.feedback else 1]:
                label = f"{name} {'with' if variant.feedback else 'without'} feedback"
                try:
                    yield _figure(label, variant, workload, rounds)
                except Exception as problem:  # whatever one does, the others are measured
                    yield f"{label} at {shape}: {type(problem).__name__}: {problem}"
                if device.type == "cuda":
                    torch.cuda.empty_cache()


def _figure(label: str, compressor: compll.Compressor, workload: Workload, rounds: int) -> Figure:
    row = measure(label, compressor, workload, rounds)
    mine = compiled(compressor, workload)
    mine.warm()
    large = workload.numel >= TARGET_NUMEL and len(workload.shapes) == 1
    target = TARGETS.get(compressor.name) if large else None
    return Figure(
        row=row.as_json(), host_us=_host_time(mine), kernels=_kernel_times(mine),
        target=target.of(compressor.feedback) if target else None, wanted=_wanted(row) if large else {},
    )  # fmt: skip


def _wanted(row: Row) -> dict[str, float]:
    found = {peer: SPEEDUPS.get((row.compressor.name, row.compressor.feedback, peer)) for peer in row.peers}
    return {peer: speedup for peer, speedup in found.items() if speedup is not None}


def _host_time(mine: Compiled) -> float:
    """Microseconds until encode returns, the median of some calls that find the GPU idle."""
    took = []
    for step in range(HOST_STEPS if mine.workload.device.type == "cuda" else 1):
        _synchronize(mine.workload.device)
        start = perf_counter()
        mine.encode(step)
        took.append(perf_counter() - start)
    return statistics.median(took) * 1e6


def _kernel_times(mine: Compiled, steps: int = 5) -> tuple[KernelTime, ...]:
    """Everything that ran on the GPU in encode and decode, longest first; nothing without a GPU or its profiler."""
    if mine.workload.device.type != "cuda":
        return ()
    try:
        events = _profiled(mine, steps)
    except RuntimeError as problem:
        print(f"no times of kernels: {problem}")
        return ()
    found = [
        KernelTime(name=event.key, microseconds=event.device_time_total / steps, calls=event.count / steps)
        for event in events
        if event.device_time_total > 0
    ]
    return tuple(sorted(found, key=lambda kernel: -kernel.microseconds))


def _profiled(mine: Compiled, steps: int) -> Sequence[Any]:
    """The profiler's averages by name, over some steps that are run here."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiler:
        for step in range(steps):
            mine.encode(step)
            mine.decode(step)
        torch.cuda.synchronize()
    averages: Sequence[Any] = profiler.key_averages()
    return averages


def _synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def bandwidth(device: torch.device, numel: int) -> float:
    """GB/s of one f32 copy, read and written bytes counted; the median of ten. 0 without a GPU."""
    if device.type != "cuda":
        return 0.0
    source, target = torch.ones(numel, device=device), torch.empty(numel, device=device)
    seconds = []
    for _ in range(12):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        target.copy_(source)
        end.record()
        end.synchronize()
        seconds.append(float(start.elapsed_time(end)) / 1e3)
    return 8 * numel / statistics.median(seconds[2:]) / 1e9
