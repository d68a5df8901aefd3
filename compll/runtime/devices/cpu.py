"""The CPU device: generated C++ built by the machine's compiler, cached on disk, called through ctypes.

The only user of subprocess. `build_library` is shared with whoever else has C++ to build.
"""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

import numpy as np
import torch

from compll import codegen
from compll.codegen import ir
from compll.codegen.driver import Compilation
from compll.codegen.emit.cpu import entries
from compll.codegen.plan import KernelPlan
from compll.codegen.rounds import exchanged_by
from compll.diagnostics import CompllError, InternalError
from compll.runtime.cache import cached, content_hash
from compll.runtime.devices.base import LoadedFunction, LoadedMerge, Segment, Sums
from compll.runtime.devices.records import Records, Words, Workspaces
from compll.runtime.devices.values import Values

INCLUDE = Path(codegen.__file__).parent / "include"

#: No -ffast-math: results are bit-exact. -fno-trapping-math and -fno-math-errno change no value, only flags nobody
#: reads, and let loops vectorise.
FLAGS = (
    "-std=c++17", "-O3", "-march=native", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", "-fopenmp",
    "-shared", "-fPIC",
)  # fmt: skip


def available() -> str | None:
    """None where kernels can be built, else the reason in one line."""
    return None if _compiler() else "no C++ compiler: needs $CXX, g++, clang++ or c++ on the path"


def _compiler() -> str | None:
    candidates = (os.environ.get("CXX"), "g++", "clang++", "c++")
    return next((found for name in candidates if name and (found := shutil.which(name))), None)


@cache
def _compiler_version(compiler: str) -> str:
    return subprocess.run([compiler, "--version"], capture_output=True, text=True, check=False).stdout


@cache
def _cpu_flags() -> str:
    """What -march=native means here: a cache may be shared by machines of several kinds."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return ""
    return next((line for line in lines if line.startswith(("flags", "Features"))), "")


@cache
def _headers() -> tuple[bytes, ...]:
    return tuple(p.read_bytes() for p in sorted((INCLUDE / "compll").iterdir()) if p.suffix in (".h", ".hpp"))


def build_library(name: str, source: str, flags: Sequence[str] = FLAGS, headers: Sequence[bytes] = ()) -> Path:
    """The shared library of a C++ source, from the cache or built now; `name` is for people who look into the cache.

    `headers` are the contents of headers beside compll's own that the source depends on. Raises CompllError where
    there is no compiler, it runs out of its time or a signal ends it, InternalError where it refuses the text.
    """
    compiler = _compiler()
    if compiler is None:
        raise CompllError(f"the cpu backend is not there: {available()}")
    environment = (compiler, _compiler_version(compiler), _cpu_flags())
    parts: tuple[str | bytes, ...] = (source, *flags, *environment, *_headers(), *headers)
    stem = f"{name}-{content_hash(parts)}"

    def make(target: Path) -> None:
        kept = cached(f"{stem}.cpp", lambda path: _write(path, source))
        _compile([compiler, *flags, f"-I{INCLUDE}", str(kept), "-o", str(target)], kept)

    return cached(f"{stem}.so", make)


def _write(path: Path, text: str) -> None:
    path.write_text(text)


def _compile(command: list[str], source: Path) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    except subprocess.TimeoutExpired:
        raise CompllError(f"{command[0]} took more than 600 s for {source}") from None
    ended = _signal(done.returncode, done.stderr)
    if ended:
        raise CompllError(f"{command[0]} was ended by a signal ({ended}) while it compiled {source}")
    if done.returncode != 0:
        raise InternalError(_refusal(command[0], done.stderr, source))


def _signal(status: int, messages: str) -> str | None:
    """The signal that ended the compiler, or a program that it had started, of which it tells; None if none did."""
    if status < 0:
        return signal.Signals(-status).name
    found = re.search(r"fatal error: (.+) signal terminated program", messages)
    return found[1] if found else None


def _refusal(compiler: str, messages: str, source: Path) -> str:
    """The first error, the generated line it is about, and where the whole source is."""
    first = next((line for line in messages.splitlines() if "error:" in line), messages.strip()[:500])
    found = re.match(rf"{re.escape(str(source))}:(\d+):", first)
    line = source.read_text().splitlines()[int(found[1]) - 1].strip() if found else ""
    shown = f"\n    {line}" if line else ""
    return f"{compiler} refused generated code: {first}{shown}\n    the whole source: {source}"


@lru_cache(maxsize=None)
def _library(path: Path) -> ctypes.CDLL:
    return ctypes.CDLL(str(path))


@dataclass(frozen=True)
class CpuFunction:
    """One loaded function; safe to call from several threads at once, each call has its own workspace."""

    name: str
    plan: KernelPlan
    entries: Sequence[ctypes._NamedFuncPointer]
    records: Records
    workspaces: Workspaces

    def __call__(self, segments: Sequence[Segment], threads: int | None = None) -> None:
        """Run on every segment with `threads` threads (default: torch's). Raises MemoryError where memory ran out."""
        with self.workspaces.borrowed() as workspace:
            table = self.records.table(segments, workspace)
            for entry in self.entries:
                self._run(entry, table, threads)

    @property
    def exchanged(self) -> Sequence[ir.Value]:
        return exchanged_by(self.plan)

    def rounds(self, segments: Sequence[Segment], threads: int | None = None) -> Iterator[list[torch.Tensor]]:
        """As `LoadedFunction.rounds` says."""
        with self.workspaces.borrowed() as workspace:
            table = self.records.table(segments, workspace)
            places = [
                Values(
                    plan=self.plan, segment=segment, addresses=self.records.addresses(record),
                    environment=self.records.environment(segment), workspace=workspace,
                )
                for segment, record in zip(segments, table, strict=True)
            ]  # fmt: skip
            for entry, value in zip(self.entries, self.exchanged):
                self._run(entry, table, threads)
                yield [place.flat(value) for place in places]
            self._run(self.entries[-1], table, threads)

    def _run(self, entry: ctypes._NamedFuncPointer, table: Words, threads: int | None) -> None:
        if entry(table.ctypes.data, len(table), threads or torch.get_num_threads()) != 0:
            raise MemoryError(f"function `{self.name}` ran out of memory")


@dataclass(frozen=True)
class CpuMerge:
    """A loaded merge; safe to call from several threads at once, each call has its own workspaces."""

    name: str
    entry: ctypes._NamedFuncPointer
    decode: Records
    decode_add: Records
    workspaces: Workspaces

    def __call__(self, sums: Sums, threads: int | None = None) -> None:
        """As `LoadedMerge` says. Raises MemoryError where memory ran out."""
        rows, skipped = sums.rows, 0 if sums.add else 1
        others = [segment for row in rows for segment in row[skipped:]]
        lengths = [len(row) - skipped for row in rows]
        ends, divisors = np.cumsum(lengths, dtype=np.int64), np.array(sums.divisors, np.float32)
        with self.workspaces.borrowed() as one, self.workspaces.borrowed() as two:
            firsts = None if sums.add else self.decode.table([row[0] for row in rows], one)
            table = self.decode_add.table(others, two, [length for length in lengths if length])
            address = None if firsts is None else firsts.ctypes.data
            addresses = (address, table.ctypes.data, ends.ctypes.data, divisors.ctypes.data)
            if self.entry(*addresses, len(rows), threads or torch.get_num_threads()) != 0:
                raise MemoryError(f"merging payloads of `{self.name}` ran out of memory")


class CpuDevice:
    """Builds and loads functions for this machine's CPU."""

    @property
    def name(self) -> str:
        return "cpu"

    def load(self, compilation: Compilation, function: str) -> LoadedFunction:
        """Build (or find) the program's library and look up the function. Raises as `build_library` does."""
        program = compilation.program
        library = _library(build_library(program.name, compilation.source("cpu")))
        plan = compilation.plans[function]
        return CpuFunction(
            name=f"{program.name}.{function}", plan=plan, entries=[_entry(library, name) for name in entries(plan)],
            records=Records(program, plan), workspaces=_workspaces,
        )  # fmt: skip

    def load_merge(self, compilation: Compilation) -> LoadedMerge:
        """Raises as `load` does."""
        program = compilation.program
        entry = _library(build_library(program.name, compilation.source("cpu"))).merge
        entry.argtypes = [*[ctypes.c_void_p] * 4, ctypes.c_int64, ctypes.c_int]
        entry.restype = ctypes.c_int
        decode, decode_add = (Records(program, compilation.plans[name]) for name in ("decode", "decode_add"))
        return CpuMerge(program.name, entry, decode, decode_add, _workspaces)


def _entry(library: ctypes.CDLL, name: str) -> ctypes._NamedFuncPointer:
    entry = getattr(library, name)
    entry.argtypes = [ctypes.c_void_p, ctypes.c_int64, ctypes.c_int]
    entry.restype = ctypes.c_int
    return entry


_workspaces = Workspaces()
