"""The opcodes of scalar code: a closed table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Opcode:
    """`arity` is the number of args (draws take an optional position); `kind` groups opcodes for verifier, printers."""

    arity: int
    kind: Literal["leaf", "load", "draw", "arithmetic", "compare", "logic", "bits", "function", "cast"]
    doc: str


OPCODES: dict[str, Opcode] = {
    # leaves
    "const": Opcode(0, "leaf", "attribute value"),
    "param": Opcode(0, "leaf", "attribute name: a parameter that is an argument of the kernel"),
    "size": Opcode(0, "leaf", "attribute value: a Size, converted to dtype"),
    "position": Opcode(0, "leaf", "attribute axis: flat | row | column, as u32"),
    # loads: an array of the space's shape at this position, a row value at this row, or a scalar
    "load": Opcode(0, "load", "source at the own position, its row (shape [rows] in a [rows, cols] space) or scalar"),
    "load_at": Opcode(1, "load", "source at index arg (within this row for a matrix); 0 beyond its extent or count"),
    # random draws (numerics.md): attributes stream, shared; position = the arg if there is one, else the flat position
    "uniform": Opcode(0, "draw", "f32 in [0, 1); attribute bits: 32 | 16"),
    "normal": Opcode(0, "draw", "f32, sum of uniforms"),
    "choose": Opcode(0, "draw", "u32: keyed permutation of [0, extent); attribute extent: Size"),
    "sample_index": Opcode(0, "draw", "u32: (word * extent) >> 32; attribute extent: Size"),
    # arithmetic in the statement's dtype (f32, f64, i32, i64, u32); integer division and remainder by 0 give 0
    "add": Opcode(2, "arithmetic", ""),
    "sub": Opcode(2, "arithmetic", ""),
    "mul": Opcode(2, "arithmetic", ""),
    "div": Opcode(2, "arithmetic", "floats: IEEE; integers: toward zero"),
    "rem": Opcode(2, "arithmetic", "sign of the dividend (fmod)"),
    "neg": Opcode(1, "arithmetic", ""),
    "min": Opcode(2, "arithmetic", "NaN wins; -0 < +0"),
    "max": Opcode(2, "arithmetic", "NaN wins; -0 < +0"),
    "abs": Opcode(1, "arithmetic", ""),
    "sign": Opcode(1, "arithmetic", "-1, 0, 1; NaN stays"),
    "fma": Opcode(3, "arithmetic", "a * b + c, rounded once"),
    # comparisons: args of one dtype, result bool; float comparisons are IEEE (false with NaN, ne true)
    "lt": Opcode(2, "compare", ""),
    "le": Opcode(2, "compare", ""),
    "gt": Opcode(2, "compare", ""),
    "ge": Opcode(2, "compare", ""),
    "eq": Opcode(2, "compare", ""),
    "ne": Opcode(2, "compare", ""),
    # bool logic and choice
    "and": Opcode(2, "logic", ""),
    "or": Opcode(2, "logic", ""),
    "not": Opcode(1, "logic", ""),
    "select": Opcode(3, "logic", "condition, then, otherwise"),
    # integer bits; shifts by >= width give 0 (shr of a negative i32: -1)
    "bitand": Opcode(2, "bits", ""),
    "bitor": Opcode(2, "bits", ""),
    "bitxor": Opcode(2, "bits", ""),
    "bitnot": Opcode(1, "bits", ""),
    "shl": Opcode(2, "bits", ""),
    "shr": Opcode(2, "bits", ""),
    "popcount": Opcode(1, "bits", "u32 -> u32"),
    "leading_zeros": Opcode(1, "bits", "u32 -> u32; 32 for 0"),
    "bits": Opcode(1, "bits", "f32 -> u32, the same bits"),
    "from_bits": Opcode(1, "bits", "u32 -> f32, the same bits"),
    # functions of f32 (floor .. sqrt exact; exp .. pow by own polynomials, equal on all backends)
    "floor": Opcode(1, "function", ""),
    "ceil": Opcode(1, "function", ""),
    "round": Opcode(1, "function", "half to even"),
    "trunc": Opcode(1, "function", ""),
    "sqrt": Opcode(1, "function", "correctly rounded; also f64"),
    "exp": Opcode(1, "function", ""),
    "log": Opcode(1, "function", ""),
    "exp2": Opcode(1, "function", ""),
    "log2": Opcode(1, "function", ""),
    "pow": Opcode(2, "function", ""),
    "is_finite": Opcode(1, "function", "f32 -> bool"),
    "is_nan": Opcode(1, "function", "f32 -> bool"),
    # conversion to the statement's dtype by the rules of numerics.md
    "cast": Opcode(1, "cast", ""),
}
