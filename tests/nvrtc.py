"""Compiling CUDA text for real, without a GPU: NVRTC makes a cubin and says what every kernel needs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from cuda.bindings import nvrtc

from compll.runtime.devices.cpu import INCLUDE

OPTIONS = ("-std=c++17", "-default-device", "-fmad=false", "-ftz=false", "--ptxas-options=-v", f"-I{INCLUDE}")


@dataclass(frozen=True)
class KernelUse:
    """What ptxas reports of one kernel, in bytes and 32-bit registers."""

    registers: int
    shared: int
    spilled: int


@dataclass(frozen=True)
class Compiled:
    """The machine code, what each kernel needs, and the warnings of the compiler."""

    cubin: bytes
    kernels: dict[str, KernelUse]
    warnings: tuple[str, ...]


def compile_cuda(text: str, arch: int = 90, options: Sequence[str] = ()) -> Compiled:
    """Compile for sm_<arch>; an AssertionError shows the compiler's messages."""
    _, program = nvrtc.nvrtcCreateProgram(text.encode(), b"kernels.cu", 0, [], [])
    given = [option.encode() for option in (*OPTIONS, f"-arch=sm_{arch}", *options)]
    (status,) = nvrtc.nvrtcCompileProgram(program, len(given), given)
    _, size = nvrtc.nvrtcGetProgramLogSize(program)
    buffer = bytes(bytearray(size + 16))  # never bytes literals: nvrtc writes into the object
    nvrtc.nvrtcGetProgramLog(program, buffer)
    log = buffer.rstrip(b"\0").decode()
    assert status == nvrtc.nvrtcResult.NVRTC_SUCCESS, log
    _, size = nvrtc.nvrtcGetCUBINSize(program)
    cubin = bytes(bytearray(size + 1))
    nvrtc.nvrtcGetCUBIN(program, cubin)
    nvrtc.nvrtcDestroyProgram(program)
    return Compiled(cubin[:size], _kernels(log), tuple(line for line in log.splitlines() if "warning" in line))


def _kernels(log: str) -> dict[str, KernelUse]:
    found: dict[str, KernelUse] = {}
    name, spilled = "", 0
    for line in log.splitlines():
        if entry := re.search(r"Compiling entry function '(\S+)'", line):
            name = entry[1]
        elif spills := re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads", line):
            spilled = int(spills[1]) + int(spills[2])
        elif used := re.search(r"Used (\d+) registers(?:.*?(\d+) bytes smem)?", line):
            found[name] = KernelUse(registers=int(used[1]), shared=int(used[2] or 0), spilled=spilled)
    return found
