"""Kernel text built for the CPU, and launched thread by thread by the emulator's scheduler (runtime/emulator).

Knows nothing of compressors. `__shared__` is static memory of the library, so that the blocks of a cooperative launch
need a library each: further copies of the file, loaded when such a launch first comes.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import count
from pathlib import Path

from compll.diagnostics import CompllError, InternalError
from compll.runtime import emulator
from compll.runtime.devices.cpu import INCLUDE, build_library

SOURCES = Path(emulator.__file__).parent

#: Blocks of a cooperative launch at most; the scheduler has room for 8 of 256 threads.
RESIDENT = 4

_COMMON = ("-std=c++17", "-O2", "-g", "-march=native", "-fPIC", "-shared", f"-I{SOURCES}")
#: Hidden and not unique: what is static in inline functions belongs to one library, too.
KERNEL_FLAGS = (*_COMMON, "-ffp-contract=off", "-fno-strict-aliasing", "-fvisibility=hidden", "-fno-gnu-unique")
#: For each check: flags of the kernels, flags of the scheduler.
CHECKS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "": ((), ()),
    "address": (("-fsanitize=address",), ("-DEMULATOR_ASAN",)),
    "undefined": (("-fsanitize=undefined", "-fno-sanitize-recover=undefined"), ()),
    "thread": (("-fsanitize=thread",), ("-DEMULATOR_TSAN",)),
}


@cache
def _headers() -> tuple[bytes, ...]:
    """The contents of all headers that emulated text depends on."""
    device_library = sorted((INCLUDE / "compll").glob("*.cuh"))
    return tuple(p.read_bytes() for p in (*sorted(SOURCES.glob("*.h")), *device_library))


@cache
def _scheduler(check: str) -> ctypes.CDLL:
    """The library that kernels call; loaded before them, for all to see."""
    source = (SOURCES / "scheduler.cpp").read_text()
    path = build_library("emulator", source, (*_COMMON, *CHECKS[check][1]), _headers())
    return ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)


def chosen_check() -> str:
    """The sanitizer that $COMPLL_EMULATOR_CHECK names, or ""."""
    check = os.environ.get("COMPLL_EMULATOR_CHECK", "")
    if check not in CHECKS:
        raise CompllError(f"COMPLL_EMULATOR_CHECK needs one of {', '.join(sorted(CHECKS)[1:])}, got `{check}`")
    return check


@dataclass
class Emulation:
    """The kernels of one CUDA text, built (or found) when made; raises as `build_library` does."""

    name: str
    cuda: str
    kernels: Sequence[str]
    check: str = ""
    _copies: list[ctypes.CDLL] = field(default_factory=list)
    _path: Path = field(init=False)

    def __post_init__(self) -> None:
        entries = "".join(f"EMULATOR_EXPORT({kernel})\n" for kernel in self.kernels)
        text = f'#include "emulator.h"\n{self.cuda}\n{entries}'
        _scheduler(self.check)
        self._path = build_library(self.name, text, (*KERNEL_FLAGS, *CHECKS[self.check][0]), _headers())
        self._copies.append(ctypes.CDLL(str(self._path)))

    def launch(
        self, kernel: str, blocks: int, threads: int, pointers: Sequence[int], *, together: bool = False
    ) -> None:
        """Run a kernel to its end; `together` keeps all blocks, at most RESIDENT, alive at once.

        Raises InternalError where the emulator complains.
        """
        alive = blocks if together else 1
        while len(self._copies) < alive:
            self._copies.append(_copy(self._path))
        entries = (ctypes.c_void_p * alive)(*(_entry(library, kernel) for library in self._copies[:alive]))
        arguments = (ctypes.c_void_p * len(pointers))(*pointers)
        if _scheduler(self.check).emulator_run(blocks, threads, alive, entries, arguments) != 0:
            raise InternalError(f"emulator: kernel `{kernel}` misbehaved, see stderr")


def _entry(library: ctypes.CDLL, kernel: str) -> int:
    find = getattr(library, f"emulated_{kernel}")
    find.restype = ctypes.c_void_p
    address: int = find()
    return address


_copied = count()


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    """Kept until this process ends: sanitizers read line numbers from the files."""
    return tempfile.TemporaryDirectory(prefix="compll-emulator-")


def _copy(path: Path) -> ctypes.CDLL:
    copied = Path(_folder().name) / f"{next(_copied)}-{path.name}"
    shutil.copyfile(path, copied)
    return ctypes.CDLL(str(copied))
