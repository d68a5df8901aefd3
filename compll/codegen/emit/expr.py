"""Scalar bodies as C text, for both backends: one line per statement, each with the level at which it can be hoisted.

What differs between targets and kernels (where an array element lies, what the position is called) is asked of a
`Spelling`; what every target shares (arithmetic, casts, constants) is spelled here, with the functions of
include/compll/*.h. Arguments are always names, so no precedence is needed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

import numpy as np

from compll.codegen.emit.names import Names
from compll.codegen.ir import OPCODES, Body, Statement
from compll.dtypes import BF16, BOOL, F16, F32, F64, DType
from compll.sizes import Num, Size


class Level(IntEnum):
    """How often a statement must be evaluated: once per kernel and segment, once per row, at every position."""

    UNIFORM = 0
    ROW = 1
    ELEMENT = 2


class Spelling(Protocol):
    """How one kernel of one target says what depends on memory and position. Levels say what the text depends on."""

    def load(self, statement: Statement) -> tuple[str, Level]:
        """`statement.source` at the own position, its row, or a scalar, in the compute type."""

    def load_at(self, statement: Statement, index: str) -> tuple[str, Level]:
        """`statement.source` at `index`, 0 beyond; the level without that of the index."""

    def draw(self, statement: Statement, position: str | None) -> tuple[str, Level]:
        """A random draw at `position`, or at the own flat position; the level without that of the position."""

    def position(self, axis: str) -> tuple[str, Level]:
        """The own position as u32: axis is flat, row or column."""

    def parameter(self, name: str) -> str:
        """A parameter of the program, a field of the segment."""

    def size(self, size: Size) -> str:
        """A size as int64_t, or as double where the record has it among its numbers."""


@dataclass(frozen=True, slots=True)
class Line:
    """`const <ctype> <name> = <text>;` and the level at which it stands; `constexpr` for a `literal`."""

    level: Level
    dtype: DType
    name: str
    text: str
    literal: bool = False

    @property
    def is_zero(self) -> bool:
        """Whether it is the literal (positive) zero."""
        return self.literal and self.text in ("0.0f", "0.0", "0u", "0")

    @property
    def declaration(self) -> str:
        spared = "[[maybe_unused]] " if self.is_zero else ""  # `only_if` does without
        constness = "constexpr" if self.literal else "const"
        return f"{spared}{constness} {compute_ctype(self.dtype)} {self.name} = {self.text};"


def compute_ctype(dtype: DType) -> str:
    """The C type in which a body computes with values of an element type."""
    return {
        "f16": "float", "bf16": "float", "f32": "float", "f64": "double", "i32": "int32_t", "i64": "int64_t",
        "u64": "uint64_t", "bool": "bool",
    }.get(dtype.name, "uint32_t")  # fmt: skip


def storage_ctype(dtype: DType) -> str:
    """The C type of an array element in memory (an array of its own, not a packed section)."""
    if dtype.kind == "bool" or (dtype.kind == "uint" and dtype.bits <= 8):
        return "uint8_t"
    return "uint16_t" if dtype.bits <= 16 else compute_ctype(dtype)


def from_storage(dtype: DType, element: str) -> str:
    """A stored element in the compute type."""
    if dtype in (F16, BF16):
        return f"compll::{dtype.name}_to_f32({element})"
    if dtype == BOOL:
        return f"({element} != 0)"
    return element if storage_ctype(dtype) == compute_ctype(dtype) else f"uint32_t({element})"


def to_storage(dtype: DType, value: str) -> str:
    """A value of the compute type as the element to store. Canonical NaNs are the emitter's matter (`canonical`)."""
    if dtype in (F16, BF16):
        return f"compll::f32_to_{dtype.name}({value})"
    return value if storage_ctype(dtype) == compute_ctype(dtype) else f"{storage_ctype(dtype)}({value})"


def body_lines(
    body: Body, spelling: Spelling, names: Names, known: Mapping[str, Line] | None = None
) -> dict[str, Line]:
    """The body's statements as lines, in order, by statement name. `known` are lines that stand outside already."""
    lines = dict(known or {})
    for statement in body:
        if statement.name not in lines:
            args = [lines[a] for a in statement.args]
            text, own = _statement(statement, spelling, args)
            level = max([own, *(a.level for a in args)])
            literal = statement.opcode == "const" and "compll::" not in text
            lines[statement.name] = Line(level, statement.dtype, names.fresh(statement.name), text, literal)
    return lines


def slice_body(body: Body, roots: Collection[str]) -> Body:
    """The statements that the roots need, in order."""
    needed = set(roots)
    kept: list[Statement] = []
    for statement in reversed(body):
        if statement.name in needed:
            needed.update(statement.args)
            kept.append(statement)
    return tuple(reversed(kept))


def constant(value: float | int | bool, dtype: DType) -> str:
    """A literal of the compute type of `dtype` with exactly this value."""
    if dtype == BOOL:
        return "true" if value else "false"
    if dtype.kind == "float":
        return _float_constant(float(value), dtype)
    number = int(value)
    if dtype.kind == "uint":
        return f"{number}u"
    suffix = "LL" if dtype.bits == 64 else ""
    if number == dtype.limits[0]:  # C has no negative literals: the smallest one is a difference
        return f"({number + 1}{suffix} - 1)"
    return f"{number}{suffix}" if number >= 0 else f"({number}{suffix})"


def _float_constant(value: float, dtype: DType) -> str:
    wide = "f64" if dtype == F64 else "f32"
    if value != value:
        return f"compll::nan_{wide}()"
    if value in (float("inf"), float("-inf")):
        return f"{'-' if value < 0 else ''}compll::infinity_{wide}()"
    # The shortest decimal that reads back as the same number; C reads it correctly rounded.
    text = repr(value) if dtype == F64 else f"{np.float32(value)!s}f"
    return f"({text})" if text.startswith("-") else text


# --- one statement ---------------------------------------------------------------------------------------------------


def _statement(s: Statement, spelling: Spelling, args: list[Line]) -> tuple[str, Level]:
    names = [a.name for a in args]
    match OPCODES[s.opcode].kind:
        case "leaf":
            return _leaf(s, spelling)
        case "load":
            return spelling.load(s) if s.opcode == "load" else spelling.load_at(s, names[0])
        case "draw":
            return spelling.draw(s, names[0] if names else None)
        case "cast":
            return cast(names[0], args[0].dtype, s.dtype), Level.UNIFORM
        case _:
            if s.opcode == "select" and args[2].is_zero and s.dtype.name in ("f32", "u32", "i32"):
                return f"compll::only_if({names[0]}, {names[1]})", Level.UNIFORM
            return _operation(s.opcode, args[0].dtype, names), Level.UNIFORM


def _leaf(s: Statement, spelling: Spelling) -> tuple[str, Level]:
    match s.opcode:
        case "const":
            value = s.attribute("value")
            assert isinstance(value, (int, float))
            return constant(value, s.dtype), Level.UNIFORM
        case "param":
            return spelling.parameter(str(s.attribute("name"))), Level.UNIFORM
        case "position":
            return spelling.position(str(s.attribute("axis")))
        case _:
            size = s.attribute("value")
            assert not isinstance(size, (int, float, str))
            number = constant(size.value, F64) if isinstance(size, Num) else f"double({spelling.size(size)})"
            return cast(number, F64, s.dtype), Level.UNIFORM


def cast(value: str, source: DType, target: DType) -> str:
    """A value of one element type as another; narrow types are held in the type that computes."""
    if source == target:
        return value
    if target.kind == "bool":
        return f"{value} != 0"
    if target.kind == "float":
        return _to_float(value, source, target)
    if source.kind == "bool":
        return f"{compute_ctype(target)}({value})"
    if target.kind == "int":
        return f"compll::to_i{target.bits}({value})"
    fits = source.kind == "uint" and source.bits <= target.bits
    return value if fits else f"compll::to_unsigned({value}, {target.limits[1]}u)"


def _to_float(value: str, source: DType, target: DType) -> str:
    if target == F64:
        return f"double({value})"
    narrow = source.kind == "bool" or (source.kind == "uint" and source.bits <= 16)
    if source == F64:
        single = f"compll::f64_to_f32({value})"
    elif source.kind == "float":
        single = value
    else:  # vector units convert signed integers
        single = f"float(int32_t({value}))" if narrow else f"float({value})"
    return single if target == F32 else f"compll::round_to_{target.name}({single})"


_SYMBOLS = {
    "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!=",
    "and": "&", "or": "|", "bitand": "&", "bitor": "|", "bitxor": "^",
}  # fmt: skip
_ARITHMETIC = {"add": "+", "sub": "-", "mul": "*", "div": "/"}
_WRAPPING = {"add": "wrap_add", "sub": "wrap_sub", "mul": "wrap_mul"}
_FUNCTIONS = {
    "div": "divide", "rem": "remainder", "neg": "negate", "min": "minimum", "max": "maximum", "abs": "absolute",
    "sign": "sign", "fma": "fused_multiply_add", "shl": "shift_left", "shr": "shift_right", "popcount": "popcount",
    "leading_zeros": "leading_zeros", "bits": "bits", "from_bits": "from_bits", "floor": "round_down",
    "ceil": "round_up", "round": "round_even", "trunc": "truncate", "sqrt": "square_root", "exp": "exponential",
    "log": "logarithm", "exp2": "exponential2", "log2": "logarithm2", "pow": "power", "is_finite": "is_finite",
    "is_nan": "is_nan",
}  # fmt: skip


def _operation(opcode: str, dtype: DType, args: list[str]) -> str:
    """An operation on names of one element type (`dtype`, that of the first)."""
    if opcode == "select":
        return f"{args[0]} ? {args[1]} : {args[2]}"
    if opcode == "not":
        return f"!{args[0]}"
    if opcode == "bitnot":
        return f"~{args[0]}"
    if opcode in _SYMBOLS:
        return f"{args[0]} {_SYMBOLS[opcode]} {args[1]}"
    if opcode in _ARITHMETIC and (dtype.kind == "float" or (dtype.kind == "uint" and opcode != "div")):
        return f"{args[0]} {_ARITHMETIC[opcode]} {args[1]}"
    function = _WRAPPING[opcode] if opcode in _WRAPPING else _FUNCTIONS[opcode]
    return f"compll::{function}({', '.join(args)})"
