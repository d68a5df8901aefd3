"""Element types: what the language can name, and the few that only the compiler uses (f64, u64)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["uint", "int", "float", "bool"]


@dataclass(frozen=True, slots=True)
class DType:
    """An element type. `bits` is its width on the wire; `computes_as` is the type that arithmetic uses."""

    name: str
    kind: Kind
    bits: int

    def __str__(self) -> str:
        return self.name

    @property
    def computes_as(self) -> DType:
        """f32 for f16 and bf16; u32 for every unsigned width up to 32; itself otherwise."""
        if self.kind == "float" and self.bits == 16:
            return F32
        if self.kind == "uint" and self.bits < 32:
            return U32
        return self

    @property
    def limits(self) -> tuple[int, int]:
        """The smallest and largest value of an integer type."""
        if self.kind == "int":
            return -(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1
        return 0, (1 << self.bits) - 1


F16 = DType("f16", "float", 16)
BF16 = DType("bf16", "float", 16)
F32 = DType("f32", "float", 32)
F64 = DType("f64", "float", 64)
I32 = DType("i32", "int", 32)
I64 = DType("i64", "int", 64)
U32 = DType("u32", "uint", 32)
U64 = DType("u64", "uint", 64)
BOOL = DType("bool", "bool", 1)

MAX_PACKED_BITS = 16

F32_OVERFLOW = float.fromhex("0x1.ffffffp+127")  # half a step above the largest f32: rounds to infinity


def uint(bits: int) -> DType:
    """The unsigned integer of 1..16 or 32 bits."""
    if not (1 <= bits <= MAX_PACKED_BITS or bits == 32):
        raise ValueError(f"an unsigned width is 1..{MAX_PACKED_BITS} or 32 bits, got {bits}")
    return DType(f"u{bits}", "uint", bits)


#: The types that a program can name, by name.
NAMED: dict[str, DType] = {
    dtype.name: dtype for dtype in (F16, BF16, F32, I32, I64, BOOL, *(uint(b) for b in (*range(1, 17), 32)))
}
