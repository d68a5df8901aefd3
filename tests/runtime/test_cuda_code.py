"""Compiling for a GPU that is not there: architectures, the cache, and what real NVRTC says of bad text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from cuda.bindings import nvrtc as bindings
from runtime.fake_cupy import FakeNvrtc

from compll.diagnostics import CompllError, InternalError
from compll.runtime.devices import cuda_code
from compll.runtime.devices.cuda_code import Target, build, target_of


class RefusedError(Exception):
    """NVRTC's error."""


class RealNvrtc:
    """NVRTC with the calls that CuPy has."""

    NVRTCError: type[Exception] = RefusedError

    def getVersion(self) -> tuple[int, int]:
        _, major, minor = bindings.nvrtcVersion()
        return major, minor

    def getSupportedArchs(self) -> Sequence[int]:
        _, architectures = bindings.nvrtcGetSupportedArchs()
        return list(architectures)

    def createProgram(self, src: str, name: str, headers: tuple[str, ...], include_names: tuple[str, ...]) -> int:
        _, program = bindings.nvrtcCreateProgram(src.encode(), name.encode(), 0, [], [])
        return program  # type: ignore[no-any-return]

    def compileProgram(self, prog: int, options: tuple[str, ...]) -> None:
        (status,) = bindings.nvrtcCompileProgram(prog, len(options), [option.encode() for option in options])
        if status != bindings.nvrtcResult.NVRTC_SUCCESS:
            raise RefusedError(str(status))

    def getCUBIN(self, prog: int) -> bytes:
        _, size = bindings.nvrtcGetCUBINSize(prog)
        cubin = bytes(bytearray(size + 1))
        bindings.nvrtcGetCUBIN(prog, cubin)
        return cubin[: size - 1]

    def getPTX(self, prog: int) -> bytes:
        _, size = bindings.nvrtcGetPTXSize(prog)
        ptx = bytes(bytearray(size + 1))
        bindings.nvrtcGetPTX(prog, ptx)
        return ptx[: size - 1]

    def getProgramLog(self, prog: int) -> str:
        _, size = bindings.nvrtcGetProgramLogSize(prog)
        log = bytes(bytearray(size + 16))
        bindings.nvrtcGetProgramLog(prog, log)
        return log.rstrip(b"\0").decode()

    def destroyProgram(self, prog: int) -> None:
        bindings.nvrtcDestroyProgram(prog)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("COMPLL_CACHE", str(tmp_path))
    return tmp_path


TEXT = '#include <compll/scalar.h>\nextern "C" __global__ void empty() {}\n'


def test_its_own_machine_code() -> None:
    assert target_of((9, 0), FakeNvrtc()) == Target(90)
    assert Target(90).option == "-arch=sm_90"


@pytest.mark.parametrize("capability, newest", [((15, 1), 120), ((8, 9), 80)])
def test_an_unknown_architecture_gets_ptx(capability: tuple[int, int], newest: int) -> None:
    target = target_of(capability, FakeNvrtc())
    assert target == Target(newest, "ptx")
    assert build("empty", TEXT, target, RealNvrtc()).read_bytes().startswith(b"//")


def test_an_old_architecture() -> None:
    with pytest.raises(CompllError, match="needs a GPU of compute capability 7.5 or newer with NVRTC 13.0, got 7.0"):
        target_of((7, 0), FakeNvrtc())


def test_machine_code_is_whole() -> None:
    """The last byte is back: the ELF file ends with its program headers."""
    code = build("empty", TEXT, Target(90), RealNvrtc()).read_bytes()
    table, size, count = (int.from_bytes(code[at : at + n], "little") for at, n in ((32, 8), (54, 2), (56, 2)))
    assert code[:4] == b"\x7fELF"
    assert len(code) == table + size * count


def test_compiled_once(cache: Path) -> None:
    nvrtc = FakeNvrtc()
    first = build("program", TEXT, Target(90), nvrtc)
    assert build("program", TEXT, Target(90), nvrtc) == first
    assert len(nvrtc.compiled) == 1
    assert nvrtc.programs == {}
    assert {path.suffix for path in cache.iterdir()} == {".cu", ".cubin"}


def test_options() -> None:
    """Denormals stay, nothing is contracted, and the text finds compll's headers."""
    nvrtc = FakeNvrtc()
    build("program", TEXT, Target(90), nvrtc)
    _, options = nvrtc.compiled[0]
    assert {"-ftz=false", "-fmad=false", "-std=c++17", "-default-device", "-arch=sm_90"} <= set(options)
    assert f"-I{cuda_code.INCLUDE}" in options


def test_what_the_cache_tells_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Text, architecture, options, NVRTC and headers; where compll is installed makes no difference."""
    first = build("program", TEXT, Target(90), FakeNvrtc())
    others = [
        build("program", TEXT + "\n", Target(90), FakeNvrtc()),
        build("program", TEXT, Target(80), FakeNvrtc()),
        build("program", TEXT, Target(90, "ptx"), FakeNvrtc()),
        build("program", TEXT, Target(90), FakeNvrtc(version=(13, 1))),
    ]
    monkeypatch.setattr(cuda_code, "OPTIONS", (*cuda_code.OPTIONS, "-lineinfo"))
    others.append(build("program", TEXT, Target(90), FakeNvrtc()))
    monkeypatch.undo()
    monkeypatch.setattr(cuda_code, "_headers", lambda: (b"// another",))
    others.append(build("program", TEXT, Target(90), FakeNvrtc()))
    assert len({first, *others}) == 1 + len(others)


def test_the_place_of_the_headers_is_not_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    first = build("program", TEXT, Target(90), FakeNvrtc())
    cuda_code._headers()
    monkeypatch.setattr(cuda_code, "INCLUDE", Path("elsewhere"))
    assert build("program", TEXT, Target(90), FakeNvrtc()) == first


def test_a_refusal_shows_the_generated_line() -> None:
    text = '#include <compll/scalar.h>\nextern "C" __global__ void f(float* x) {\n    x[0] = no_such_name;\n}\n'
    with pytest.raises(InternalError) as caught:
        build("broken", text, Target(90), RealNvrtc())
    message = str(caught.value)
    assert 'identifier "no_such_name" is undefined' in message
    assert "\n    x[0] = no_such_name;" in message
    kept = Path(re.search(r"the whole source: (\S+)", message)[1])  # type: ignore[index]
    assert kept.read_text() == text


def test_a_refusal_of_a_header_shows_its_line() -> None:
    text = "#define uint32_t\n#include <compll/scalar.h>\n"
    with pytest.raises(InternalError, match=r"scalar\.h\(\d+\): error.*\n    \S+"):
        build("broken", text, Target(90), RealNvrtc())


def test_nothing_is_left_of_a_refusal(cache: Path) -> None:
    with pytest.raises(InternalError, match="no such option"):
        build("program", TEXT, Target(90), FakeNvrtc(refusal="nvrtc: error: no such option"))
    assert [path.suffix for path in cache.iterdir()] == [".cu"]
