"""A CuPy whose GPU is the emulator: kernels handed over as CUDA text run on the CPU, on the memory they are given.

It shows what the CUDA device does with CuPy's calls; how real CuPy answers them, only a GPU shows (tests/gpu).
"""

from __future__ import annotations

import ctypes
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

from compll.runtime.devices import emulator
from compll.runtime.devices.cpu import build_library


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

    def launch(self, kernel: str, grid: tuple[int, ...], block: tuple[int, ...], arguments: tuple[Any, ...]) -> None:
        if self.problem is not None:
            raise self.problem
        self.launches.append(Launched(kernel, grid, block, arguments, self.cupy_stream, self.device))


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


class FakeModule:
    """cupy.RawModule of a file."""

    def __init__(self, gpu: FakeGpu, path: str) -> None:
        self._gpu = gpu
        self._text = Path(path).read_bytes().rstrip(b"\0").decode()
        self.path = path

    def get_function(self, name: str) -> Any:
        emulator.load_scheduler("")
        kernels = re.findall(r"__launch_bounds__\([^)]*\) (\w+)\(", self._text)
        text = emulator.host_text(self._text, kernels)
        library = ctypes.CDLL(str(build_library("fake", text, emulator.KERNEL_FLAGS, emulator.emulator_headers())))
        entry = getattr(library, f"launch_{name}")
        entry.argtypes = [ctypes.c_uint, ctypes.c_uint, ctypes.c_void_p, ctypes.c_void_p]

        def kernel(grid: tuple[int, ...], block: tuple[int, ...], arguments: tuple[Any, ...]) -> None:
            self._gpu.launch(name, grid, block, arguments)
            assert entry(grid[0], block[0], *(int(a) for a in arguments)) == 0

        return kernel


def install(gpu: FakeGpu, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the fake in CuPy's place, and let torch's CUDA answer for it."""

    class CUDARuntimeError(RuntimeError):
        pass

    stream = SimpleNamespace(from_external=lambda given: FakeStream(gpu, given.cuda_stream))
    runtime = SimpleNamespace(getDeviceCount=gpu.count_devices, CUDARuntimeError=CUDARuntimeError)
    cupy: Any = ModuleType("cupy")
    cupy.cuda = SimpleNamespace(nvrtc=gpu.nvrtc, Stream=stream, runtime=runtime)
    cupy.RawModule = lambda *, path: FakeModule(gpu, path)
    monkeypatch.setitem(__import__("sys").modules, "cupy", cupy)
    monkeypatch.delitem(__import__("sys").modules, "compll.runtime.devices.cuda", raising=False)
    monkeypatch.setattr(torch.cuda, "device", gpu.use_device)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: SimpleNamespace(cuda_stream=gpu.stream))
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: gpu.capturing)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda index: (9, 0))


def is_pointer(value: Any) -> bool:
    """Whether CuPy passes a value as eight bytes, whatever the parameter is."""
    return isinstance(value, np.uint64)
