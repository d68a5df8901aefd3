"""From CUDA text to machine code: which architecture to compile for, NVRTC, the cache, and NVRTC's refusals.

Knows NVRTC's calls by a protocol, so that CuPy stays behind its door (`cuda.py`).

*Why not `cupy.RawModule(code=...)`, which compiles and caches by itself?* It adds `-ftz=true` behind the caller's
options, so that denormals would be lost, and its cache key leaves out what the text includes, so that an update of
compll's headers would go unnoticed. So the text is compiled here, kept in compll's own cache (named by content and
moved into place whole, so that many ranks can share it), and handed to CuPy as a file.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal, Protocol

from compll import codegen
from compll.diagnostics import CompllError, InternalError
from compll.runtime.cache import cached, content_hash

INCLUDE = Path(codegen.__file__).parent / "include"

#: No contraction, no flushing of denormals: results are bit-exact. The text needs no header but compll's own.
OPTIONS = ("-std=c++17", "-default-device", "-fmad=false", "-ftz=false")


class Nvrtc(Protocol):
    """NVRTC as CuPy has it: `cupy.cuda.nvrtc`."""

    NVRTCError: type[Exception]

    def getVersion(self) -> tuple[int, int]: ...

    def getSupportedArchs(self) -> Sequence[int]: ...

    def createProgram(self, src: str, name: str, headers: tuple[str, ...], include_names: tuple[str, ...]) -> int: ...

    def compileProgram(self, prog: int, options: tuple[str, ...]) -> None: ...

    def getCUBIN(self, prog: int) -> bytes: ...

    def getPTX(self, prog: int) -> bytes: ...

    def getProgramLog(self, prog: int) -> str: ...

    def destroyProgram(self, prog: int) -> None: ...


@dataclass(frozen=True, slots=True)
class Target:
    """Machine code for one architecture (90 for compute capability 9.0), or PTX that the driver finishes."""

    arch: int
    kind: Literal["cubin", "ptx"] = "cubin"

    @property
    def option(self) -> str:
        return f"-arch={'sm' if self.kind == 'cubin' else 'compute'}_{self.arch}"


def target_of(capability: tuple[int, int], nvrtc: Nvrtc) -> Target:
    """What to compile for a GPU: its own machine code, else the newest PTX that it can run.

    Raises CompllError for a GPU that is older than all that this NVRTC knows.
    """
    arch = 10 * capability[0] + capability[1]
    known = [int(each) for each in nvrtc.getSupportedArchs()]
    if arch in known:
        return Target(arch)
    older = [each for each in known if each < arch]
    if not older:
        version, oldest = ".".join(map(str, nvrtc.getVersion())), f"{min(known) // 10}.{min(known) % 10}"
        raise CompllError(
            f"backend `cuda` needs a GPU of compute capability {oldest} or newer with NVRTC {version}, got "
            f"{capability[0]}.{capability[1]}; CuPy for an older CUDA brings an older NVRTC"
        )
    return Target(max(older), "ptx")


def build(name: str, source: str, target: Target, nvrtc: Nvrtc) -> Path:
    """The compiled text as a file, from the cache or made now; `name` is for people who look into the cache.

    Raises InternalError where NVRTC refuses the text.
    """
    version = ".".join(map(str, nvrtc.getVersion()))
    stem = f"{name}-{target.arch}-{content_hash((source, *OPTIONS, target.option, version, *_headers()))}"

    def make(path: Path) -> None:
        kept = cached(f"{stem}.cu", lambda text: _write(text, source))
        path.write_bytes(_compile(kept, source, target, nvrtc))

    return cached(f"{stem}.{target.kind}", make)


@cache
def _headers() -> tuple[bytes, ...]:
    return tuple(p.read_bytes() for p in sorted((INCLUDE / "compll").iterdir()) if p.suffix in (".h", ".cuh"))


def _write(path: Path, text: str) -> None:
    path.write_text(text)


def _compile(kept: Path, source: str, target: Target, nvrtc: Nvrtc) -> bytes:
    program = nvrtc.createProgram(source, kept.name, (), ())
    try:
        nvrtc.compileProgram(program, (*OPTIONS, f"-I{INCLUDE}", target.option))
        if target.kind == "ptx":
            return nvrtc.getPTX(program)
        return nvrtc.getCUBIN(program) + b"\0"  # CuPy cuts the last byte off, as if a cubin were a string
    except nvrtc.NVRTCError as problem:
        log = nvrtc.getProgramLog(program) or str(problem)
        raise InternalError(_refusal(log, source, kept)) from None
    finally:
        nvrtc.destroyProgram(program)


def _refusal(log: str, source: str, kept: Path) -> str:
    """The first error, the generated line it is about, and where the whole source is."""
    first = next((line for line in log.splitlines() if "error" in line), log.strip()[:500])
    found = re.match(r"(.+)\((\d+)\): ", first)
    shown = ""
    if found:
        text = source if found[1] == kept.name else Path(found[1]).read_text()
        shown = f"\n    {text.splitlines()[int(found[2]) - 1].strip()}"
    return f"NVRTC refused generated code: {first}{shown}\n    the whole source: {kept}"
