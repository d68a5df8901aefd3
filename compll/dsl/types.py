"""The types of expressions: what the checker assigns and lowering reads."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Union

from compll.dtypes import DType
from compll.sizes import Size


@dataclass(frozen=True, slots=True)
class SymbolicUint:
    """`uint<bits>`: an unsigned width that is known when the program is loaded. Computes as u32."""

    width: Size

    def __str__(self) -> str:
        return f"uint<{self.width}>"


ElementType = Union[DType, SymbolicUint]


@dataclass(frozen=True, slots=True)
class Bounded:
    """An extent of at most `limit`, with a count that travels along.

    `origin` tells one count from another: arrays whose dimensions have equal origin have the same length.
    It is the payload field's name for a field, and a name unique in the program for a `filter`.
    """

    limit: Size
    origin: str

    def __str__(self) -> str:
        return f"<= {self.limit}"


Dimension = Union[Size, Bounded]


@dataclass(frozen=True, slots=True)
class Indices:
    """What is known of an array of positions: each is below `below` (padding equals it); `ascending` in each row."""

    below: Size
    ascending: bool


@dataclass(frozen=True, slots=True)
class ArrayType:
    """An array of 0 (a scalar), 1 or 2 dimensions. Only a one-dimensional array is bounded.

    `indices` is set where the checker knows that the values are positions, so that they may be stored narrower.
    """

    element: ElementType
    shape: tuple[Dimension, ...] = ()
    indices: Indices | None = field(default=None, compare=False)

    def __str__(self) -> str:
        return f"{self.element}[{', '.join(map(str, self.shape))}]" if self.shape else str(self.element)


@dataclass(frozen=True, slots=True)
class SizeType:
    """An expression of sizes, parameters and numbers only: evaluated on the host. `value` is its symbolic value."""

    value: Size

    def __str__(self) -> str:
        return "size"


@dataclass(frozen=True, slots=True)
class RecordType:
    """Named arrays: the result of `topk` and `filter`, the payload seen by decode."""

    fields: tuple[tuple[str, ArrayType], ...]

    def __str__(self) -> str:
        return "{" + ", ".join(f"{n}: {t}" for n, t in self.fields) + "}"


@dataclass(frozen=True, slots=True)
class FunctionType:
    """A lambda, a user `fn` or a primitive used as a value; parameters and result are known at its use."""

    parameters: tuple[ArrayType, ...]
    result: ArrayType


@dataclass(frozen=True, slots=True)
class Poison:
    """The type of an expression already reported: it agrees with everything, so one mistake gives one message."""

    def __str__(self) -> str:
        return "?"


Type = Union[ArrayType, SizeType, RecordType, FunctionType, Poison]
