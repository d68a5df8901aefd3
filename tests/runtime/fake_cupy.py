"""A CuPy whose GPU is the emulator: kernels handed over as CUDA text run on the CPU, on the memory they are given.

It shows what the CUDA device does with CuPy's calls; how real CuPy answers them, only a GPU shows (tests/gpu).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from compll.runtime.devices.emulation import RESIDENT, Emulation

#: Of the fake GPU; it keeps RESIDENT blocks alive in all.
MULTIPROCESSORS = 2


class NVRTCError(RuntimeError):
    """What NVRTC answers."""


@dataclass
class FakeNvrtc:
    """Its machine code is the text itself, its last byte cut off, as CuPy does it."""

    NVRTCError: type[Exception] = NVRTCError
    version: tuple[int, int] = (13, 0)
    architectures: tuple[int, ...] = (75, 80, 90, 120)
    refusal: str = ""
    compiled: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)
    programs: dict[int, str] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)

    def getVersion(self) -> tuple[int, int]:
        return self.version

    def getSupportedArchs(self) -> Sequence[int]:
        return self.architectures

    def createProgram(self, src: str, name: str, headers: tuple[str, ...], include_names: tuple[str, ...]) -> int:
        assert headers == include_names == ()
        self.names.append(name)
        self.programs[len(self.names)] = src
        return len(self.names)

    def compileProgram(self, prog: int, options: tuple[str, ...]) -> None:
        self.compiled.append((self.programs[prog], options))
        if self.refusal:
            raise NVRTCError("NVRTC_ERROR_COMPILATION (6)")

    def getCUBIN(self, prog: int) -> bytes:
        return self.programs[prog].encode() + b"\n"

    def getPTX(self, prog: int) -> bytes:
        return b"// PTX\n" + self.programs[prog].encode()

    def getProgramLog(self, prog: int) -> str:
        return self.refusal

    def destroyProgram(self, prog: int) -> None:
        del self.programs[prog]


@dataclass(frozen=True)
class Launched:
    """One launch as CuPy saw it."""

    kernel: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    arguments: tuple[Any, ...]
    together: bool
    stream: int | None
    device: torch.device | None


@dataclass
class FakeGpu:
    """What happened, and what torch and CuPy say of streams and devices. `problem` is what the next launch raises."""

    stream: int = 0x5000
    device: torch.device | None = None
    cupy_stream: int | None = None
    launches: list[Launched] = field(default_factory=list)
    problem: Exception | None = None
    capturing: bool = False
    nvrtc: FakeNvrtc = field(default_factory=FakeNvrtc)
    devices: int | Exception = 1

    @contextmanager
    def use_device(self, device: torch.device) -> Iterator[None]:
        self.device = device
        yield
        self.device = None

    @contextmanager
    def use_stream(self, stream: int) -> Iterator[None]:
        self.cupy_stream = stream
        yield
        self.cupy_stream = None

    def count_devices(self) -> int:
        if isinstance(self.devices, Exception):
            raise self.devices
        return self.devices

    def launch(
        self, kernel: str, grid: tuple[int, ...], block: tuple[int, ...], arguments: tuple[Any, ...], together: bool
    ) -> None:
        if self.problem is not None:
            raise self.problem
        self.launches.append(Launched(kernel, grid, block, arguments, together, self.cupy_stream, self.device))


class FakeStream:
    """cupy.cuda.Stream."""

    def __init__(self, gpu: FakeGpu, address: int) -> None:
        self._gpu = gpu
        self.address = address

    def __enter__(self) -> None:
        self._context = self._gpu.use_stream(self.address)
        self._context.__enter__()

    def __exit__(self, *exc: Any) -> None:
        self._context.__exit__(*exc)


@dataclass
class FakeKernel:
    """cupy.RawKernel; it is its own handle, too, which occupancy is asked of."""

    gpu: FakeGpu
    emulation: Emulation
    name: str
    together: bool

    @property
    def kernel(self) -> Any:
        return SimpleNamespace(ptr=self)

    def __call__(self, grid: tuple[int, ...], block: tuple[int, ...], arguments: tuple[Any, ...]) -> None:
        self.gpu.launch(self.name, grid, block, arguments, self.together)
        pointers = [int(argument) for argument in arguments]
        self.emulation.launch(self.name, grid[0], block[0], pointers, together=self.together)


@dataclass
class FakeModule:
    """cupy.RawModule of a file."""

    gpu: FakeGpu
    path: str
    enable_cooperative_groups: bool

    def get_function(self, name: str) -> FakeKernel:
        text = Path(self.path).read_bytes().rstrip(b"\0").decode()
        kernels = re.findall(r"__launch_bounds__\([^)]*\) (\w+)\(", text)
        return FakeKernel(self.gpu, Emulation("fake", text, kernels), name, self.enable_cooperative_groups)


def occupancy(kernel: FakeKernel, block: int, shared: int) -> int:
    assert kernel.together and (block, shared) == (256, 0)
    return RESIDENT // MULTIPROCESSORS


def install(gpu: FakeGpu, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the fake in CuPy's place, and let torch's CUDA answer for it."""

    class CUDARuntimeError(RuntimeError):
        pass

    stream = SimpleNamespace(from_external=lambda given: FakeStream(gpu, given.cuda_stream))
    runtime = SimpleNamespace(getDeviceCount=gpu.count_devices, CUDARuntimeError=CUDARuntimeError)
    cupy: Any = ModuleType("cupy")
    driver = SimpleNamespace(occupancyMaxActiveBlocksPerMultiprocessor=occupancy)
    cupy.cuda = SimpleNamespace(nvrtc=gpu.nvrtc, Stream=stream, runtime=runtime, driver=driver)
    cupy.RawModule = lambda *, path, enable_cooperative_groups: FakeModule(gpu, path, enable_cooperative_groups)
    monkeypatch.setitem(__import__("sys").modules, "cupy", cupy)
    monkeypatch.delitem(__import__("sys").modules, "compll.runtime.devices.cuda", raising=False)
    monkeypatch.setattr(torch.cuda, "device", gpu.use_device)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: SimpleNamespace(cuda_stream=gpu.stream))
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: gpu.capturing)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda index: (9, 0))
    properties = SimpleNamespace(multi_processor_count=MULTIPROCESSORS)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda index: properties)


def is_pointer(value: Any) -> bool:
    """Whether CuPy passes a value as eight bytes, whatever the parameter is."""
    return isinstance(value, np.uint64)
