"""The text of CPU kernels: legal for any words of a program, readable, deterministic; headers compile alone."""

from __future__ import annotations

import math
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from compll import codegen
from compll.codegen.driver import Compilation
from compll.codegen.emit.expr import cast, constant, slice_body
from compll.codegen.emit.names import Names, identifier
from compll.codegen.ir import Statement
from compll.codegen.specialize import choose_alternatives, environment
from compll.diagnostics import SourceFile
from compll.dsl.check import check
from compll.dsl.parameters import parameter_values
from compll.dsl.parse import parse
from compll.dtypes import BF16, BOOL, F16, F32, F64, I32, I64, U32, uint
from compll.runtime.devices import available_devices
from compll.runtime.devices.cpu import build_library

INCLUDE = Path(codegen.__file__).parent / "include"
needs_compiler = pytest.mark.skipif("cpu" not in available_devices(), reason="needs a C++ compiler")

KEYWORDS = """compressor namespace_ {
    param register: f32 = 0.5;
    feedback none;
    state volatile: f32[n];
    payload { int: f32; double: u2[n]; segment: u32[k]; length: f32[k]; count: u32[<= k]; }
    encode(float: f32[n]) {
        size k = max(1, floor(n / 4));
        let i = float * register;
        let threads = topk(i, k, by = abs);
        let first = filter(i, |row| row > 0.1, at_most = k);
        volatile = volatile + i;
        return { int: max(volatile), double: u2(abs(i)), segment: threads.index, length: threads.value,
                 count: first.index };
    }
    decode(struct_) -> f32[n] {
        return map(|q| f32(q) * struct_.int, struct_.double);
    }
}"""


def compilation(text: str, shape: tuple[int, ...] = (300, 200)) -> Compilation:
    module, _ = check(parse(SourceFile("test.cll", text)))
    values = parameter_values(module, {})
    variables = environment(module, shape, values)
    return Compilation(module, tuple(values.items()), choose_alternatives(module, variables))


def shipped(name: str) -> str:
    return (Path(__file__).parents[2] / "algorithms" / f"{name}.cll").read_text()


def test_identifiers_are_legal_and_new() -> None:
    assert [identifier(n) for n in ("a", "int", "a.b", "1st", "")] == ["a", "int_", "a_b", "v1st", "v"]
    assert [identifier(n) for n in ("EOF", "__func__", "threadIdx", "K")] == ["EOF_", "v__func__", "threadIdx_", "K"]
    names = Names(("row",))
    assert [names.fresh(n) for n in ("row", "x", "x", "x", "x_2")] == ["row_2", "x", "x_2", "x_3", "x_2_2"]


def test_an_inner_name_hides_no_outer_one_early_or_late() -> None:
    names = Names()
    child, other = names.child(), names.child()
    assert names.fresh("x") == "x" and child.fresh("x") == "x_2" and other.fresh("x") == "x_2"
    assert names.fresh("x") == "x_3"


@pytest.mark.parametrize(
    ("value", "dtype", "text"),
    [
        (0.1, F32, "0.1f"), (0.1, F64, "0.1"), (-2.0, F32, "(-2.0f)"), (math.inf, F32, "compll::infinity_f32()"),
        (-math.inf, F64, "-compll::infinity_f64()"), (math.nan, F16, "compll::nan_f32()"), (1e30, F32, "1e+30f"),
        (True, BOOL, "true"), (3, U32, "3u"), (3, uint(2), "3u"), (-3, I32, "(-3)"),
        (-(2**31), I32, "(-2147483647 - 1)"),
        (2**40, I64, "1099511627776LL"), (-(2**63), I64, "(-9223372036854775807LL - 1)"),
    ],
)  # fmt: skip
def test_constants(value: float, dtype: object, text: str) -> None:
    assert constant(value, dtype) == text


@pytest.mark.parametrize(
    ("source", "target", "text"),
    [
        (F32, uint(4), "compll::to_unsigned(x, 15u)"), (uint(4), uint(8), "x"),
        (uint(8), uint(4), "compll::to_unsigned(x, 15u)"),
        (uint(4), F32, "float(int32_t(x))"), (U32, F32, "float(x)"), (F64, F32, "compll::f64_to_f32(x)"),
        (F32, F16, "compll::round_to_f16(x)"), (F16, F32, "x"), (I32, BF16, "compll::round_to_bf16(float(x))"),
        (BOOL, I64, "int64_t(x)"), (F32, BOOL, "x != 0"), (F32, I64, "compll::to_i64(x)"),
    ],
)  # fmt: skip
def test_casts(source: object, target: object, text: str) -> None:
    assert cast("x", source, target) == text


def test_a_slice_is_what_the_roots_need() -> None:
    body = tuple(
        Statement(name=n, dtype=F32, opcode="add" if a else "const", args=a)
        for n, a in {"a": (), "b": (), "c": ("a", "a"), "d": ("b", "c"), "e": ("c", "c")}.items()
    )
    assert [s.name for s in slice_body(body, ("e",))] == ["a", "c", "e"]


@needs_compiler
def test_any_word_may_be_a_name() -> None:
    build_library("keywords", compilation(KEYWORDS).source("cpu"))


@needs_compiler
def test_a_selection_completes_from_an_array_called_like_a_line_of_its_own() -> None:
    """`at` is read twice, so it is stored as `at_2`; the line that reads it again was called `at_2`, too."""
    text = """compressor probe {
        feedback residual;
        payload { index: ascending(m)[k]; value: f32[k]; }
        encode(g: f32[n]) {
            size m = floor(n / 2);
            size k = floor(n / 4);
            let at = random.choose(n, m, shared = true);
            let top = topk(g[at], k, by = abs);
            return { index: top.index, value: top.value };
        }
        decode(p) -> f32[n] {
            let at = random.choose(n, m, shared = true);
            return scatter(n, at[p.index], p.value);
        }
    }"""
    build_library("names", compilation(text).source("cpu"))


def test_the_text_is_for_reading() -> None:
    text = compilation(shipped("topk")).source("cpu")
    assert text.startswith("// generated by compll from topk, do not edit\n")
    assert "let top = topk(g, k, by = abs);" in text
    assert text == compilation(shipped("topk")).source("cpu")
    assert not re.search(r"[ \t]$", text, re.MULTILINE) and "\n\n\n" not in text


def test_a_selection_with_feedback_reads_the_gradient_once() -> None:
    """One pass adds the residual, writes it back and collects candidates; the sample and the second try are extra."""
    text = compilation(shipped("topk")).source("cpu")
    function = text[text.index("void encode_with_feedback_") :]
    function = function[: function.index("\n}\n")]
    ranges = function[function.index("compll::for_ranges") :]
    assert ranges.count("gradient[first + i]") == 1
    assert ".complete(" in ranges and "residual[first + i]" in ranges[ranges.index(".complete(") :]


def test_what_depends_on_no_position_stands_outside_the_loops() -> None:
    text = compilation(shipped("onebit")).source("cpu")
    for loop in re.findall(r"for \(int i = .*?\n +}", text, re.DOTALL):
        assert "payload_high[0]" not in loop and "constexpr" not in loop


@needs_compiler
@pytest.mark.parametrize("header", sorted(p.name for p in (INCLUDE / "compll").iterdir() if p.suffix in (".h", ".hpp")))
def test_headers_compile_alone_without_warnings(header: str, tmp_path: Path) -> None:
    source = tmp_path / "alone.cpp"
    source.write_text(f"#include <compll/{header}>\n")
    compiler = shutil.which("g++") or "c++"
    command = [compiler, "-std=c++17", "-Wall", "-Wextra", "-Werror", "-fopenmp", "-fsyntax-only"]
    command += [f"-I{INCLUDE}", str(source)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
