"""All CUDA text compiles to machine code: headers alone, every shipped program, every pattern; no warning, no spill."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from differential.patterns import PATTERNS
from nvrtc import compile_cuda

from compll.codegen.emit import cuda
from compll.diagnostics import SourceFile
from compll.dsl.parameters import parameter_values
from compll.runtime.devices.cpu import INCLUDE
from compll.runtime.program import Program

ALGORITHMS = sorted(Path(__file__).parents[2].glob("algorithms/*.cll"))
HEADERS = sorted(p.name for p in (INCLUDE / "compll").iterdir() if p.suffix in (".h", ".cuh"))
MOST_REGISTERS = 96  # two blocks of 256 threads on any architecture, and some to spare


def text_of(source: SourceFile, dtype: torch.dtype = torch.float32, wide: bool = False) -> str:
    program = Program(source)
    values = parameter_values(program.module, {})
    compilation = program.sized(torch.Size((300, 200)), dtype, values, values).compilation
    return cuda.emit(compilation.program.name, tuple(compilation.plans.values()), wide=wide)


def shipped(path: Path) -> SourceFile:
    return SourceFile(str(path), path.read_text())


def assert_clean(text: str, arch: int, registers: int = MOST_REGISTERS) -> None:
    compiled = compile_cuda(text, arch)
    assert compiled.cubin and compiled.kernels
    assert compiled.warnings == ()
    assert {name: use for name, use in compiled.kernels.items() if use.spilled} == {}
    assert max(use.registers for use in compiled.kernels.values()) <= registers
    assert max(use.shared for use in compiled.kernels.values()) <= 48 * 1024


@pytest.mark.parametrize("options", [(), ("-DCOMPLL_WIDE",)], ids=["narrow", "wide"])
@pytest.mark.parametrize("header", HEADERS)
def test_a_header_stands_alone(header: str, options: tuple[str, ...]) -> None:
    assert compile_cuda(f"#include <compll/{header}>\n", 80, options).warnings == ()


@pytest.mark.parametrize("arch", [75, 80, 90, 100, 120])
@pytest.mark.parametrize("path", ALGORITHMS, ids=lambda p: p.stem)
def test_shipped_programs(path: Path, arch: int) -> None:
    assert_clean(text_of(shipped(path)), arch)


@pytest.mark.parametrize("name", PATTERNS)
def test_patterns(name: str) -> None:
    assert_clean(text_of(SourceFile(f"{name}.cll", PATTERNS[name][0])), 90, registers=128)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_narrow_gradients(dtype: torch.dtype) -> None:
    path = next(p for p in ALGORITHMS if p.stem == "topk")
    assert_clean(text_of(shipped(path), dtype), 90)


@pytest.mark.parametrize("name", ["selections", "filters", "scans", "row_selections"])
def test_positions_of_64_bits(name: str) -> None:
    text = text_of(SourceFile(f"{name}.cll", PATTERNS[name][0]), wide=True)
    assert text.splitlines()[1] == "#define COMPLL_WIDE"
    assert_clean(text, 90, registers=128)
