"""What operations hand on, and the scalar code that sweeps evaluate at every position."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Union

from compll.dtypes import DType
from compll.sizes import Size

Scalar = Union[int, float, bool]
Attribute = Union[Size, int, float, bool, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """The result of an operation or an input of a function; `name` is unique in its function.

    `shape` has 0, 1 or 2 dimensions. With `count` (the name of a scalar u32 value) the array is bounded: `shape` is
    its capacity, its length is the count, and what lies beyond is zero. Only one-dimensional arrays, or the rows of
    nothing, are bounded.
    """

    name: str
    dtype: DType
    shape: tuple[Size, ...] = ()
    count: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """One scalar SSA statement of a body: `name = opcode(args)`; opcodes are listed in `OPCODES`.

    `args` name earlier statements of the same body (or the parameters of a custom combine). Loads have a `source`.
    """

    name: str
    dtype: DType
    opcode: str
    args: tuple[str, ...] = ()
    source: Value | None = None
    attributes: tuple[tuple[str, Attribute], ...] = ()

    def attribute(self, name: str) -> Attribute:
        return dict(self.attributes)[name]


Body = tuple[Statement, ...]
