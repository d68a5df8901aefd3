"""The meaning of every scalar opcode on NumPy arrays, element by element (docs/numerics.md, section 2).

Leaves, loads and draws depend on where a body runs and are in `evaluate.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from compll.codegen import elementary
from compll.codegen.convert import canonical, cast
from compll.dtypes import DType

Array = NDArray[Any]


def apply(opcode: str, dtype: DType, args: list[Array]) -> Array:
    """`opcode(args)` with a result of `dtype`; the arrays broadcast."""
    if opcode == "cast":
        return cast(args[0], dtype)
    return np.asarray(_OPERATIONS[opcode](*args))


def minimum(a: Array, b: Array) -> Array:
    """NaN wins; -0 < +0."""
    if a.dtype.kind != "f":
        return np.minimum(a, b)
    smaller = np.where((a < b) | ((a == b) & np.signbit(a)), a, b)
    return np.where(np.isnan(a) | np.isnan(b), np.array(np.nan, a.dtype), smaller)


def maximum(a: Array, b: Array) -> Array:
    """NaN wins; -0 < +0."""
    if a.dtype.kind != "f":
        return np.maximum(a, b)
    larger = np.where((a > b) | ((a == b) & ~np.signbit(a)), a, b)
    return np.where(np.isnan(a) | np.isnan(b), np.array(np.nan, a.dtype), larger)


def _div(a: Array, b: Array) -> Array:
    if a.dtype.kind == "f":
        return a / b
    divisor = np.where(b == 0, np.ones_like(b), b)
    return np.where(b == 0, np.zeros_like(b), (a - np.fmod(a, divisor)) // divisor)


def _rem(a: Array, b: Array) -> Array:
    if a.dtype.kind == "f":
        return np.fmod(a, b)
    return np.where(b == 0, np.zeros_like(b), np.fmod(a, np.where(b == 0, np.ones_like(b), b)))


def _sign(x: Array) -> Array:
    whole = (x > 0).astype(x.dtype) - (x < 0).astype(x.dtype)
    return np.where(x == x, whole, x)


def _fma(a: Array, b: Array, c: Array) -> Array:
    """a * b is exact in f64; the sum is rounded to odd there, so that the rounding to f32 is the only one."""
    product, addend = a.astype(np.float64) * b.astype(np.float64), c.astype(np.float64)
    total = product + addend
    back = total - product
    error = (product - (total - back)) + (addend - back)
    even = (np.ascontiguousarray(total).view(np.int64) & 1) == 0
    inexact = np.isfinite(total) & (error != 0) & even
    odd = np.nextafter(total, np.where(error > 0, np.inf, -np.inf))
    return np.where(inexact, odd, total).astype(np.float32)


def _amount(x: Array, by: Array) -> tuple[Array, Array]:
    """The shift amount as unsigned, made harmless where it is too large, and whether it is."""
    width = 8 * x.dtype.itemsize
    unsigned = by.view(by.dtype.str.replace("i", "u"))
    large = unsigned >= width
    return np.where(large, 0, unsigned).astype(x.dtype), large


def _shl(x: Array, by: Array) -> Array:
    amount, large = _amount(x, by)
    return np.where(large, np.zeros_like(x), np.left_shift(x, amount))


def _shr(x: Array, by: Array) -> Array:
    amount, large = _amount(x, by)
    emptied = np.where(x < 0, np.full_like(x, -1), np.zeros_like(x)) if x.dtype.kind == "i" else np.zeros_like(x)
    return np.where(large, emptied, np.right_shift(x, amount))


def _popcount(x: Array) -> Array:
    count = np.zeros(x.shape, np.uint32)
    for i in range(32):
        count = count + ((x >> np.uint32(i)) & np.uint32(1))
    return count


def _leading_zeros(x: Array) -> Array:
    bit_length = np.frexp(x.astype(np.float64))[1]
    return (32 - bit_length).astype(np.uint32)


_OPERATIONS: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": _div,
    "rem": _rem,
    "neg": np.negative,
    "min": minimum,
    "max": maximum,
    "abs": np.abs,
    "sign": _sign,
    "fma": _fma,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "eq": np.equal,
    "ne": np.not_equal,
    "and": np.logical_and,
    "or": np.logical_or,
    "not": np.logical_not,
    "select": np.where,
    "bitand": np.bitwise_and,
    "bitor": np.bitwise_or,
    "bitxor": np.bitwise_xor,
    "bitnot": np.bitwise_not,
    "shl": _shl,
    "shr": _shr,
    "popcount": _popcount,
    "leading_zeros": _leading_zeros,
    "bits": lambda x: np.ascontiguousarray(canonical(x)).view(np.uint32),
    "from_bits": lambda x: np.ascontiguousarray(x).view(np.float32),
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.rint,
    "trunc": np.trunc,
    "sqrt": np.sqrt,
    "exp": elementary.exp,
    "log": elementary.log,
    "exp2": elementary.exp2,
    "log2": elementary.log2,
    "pow": elementary.pow,
    "is_finite": np.isfinite,
    "is_nan": np.isnan,
}
