"""Element types in NumPy: how values are held, cast, and written as bits (docs/numerics.md, sections 1 and 2).

Arrays are held in the type that computes: u1..u16 as uint32, f16 and bf16 as float32 with a representable value.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from compll.dtypes import BOOL, F32, F64, I32, I64, U32, U64, DType

Array = NDArray[Any]

_STORAGE: dict[DType, np.dtype[Any]] = {
    F32: np.dtype(np.float32),
    F64: np.dtype(np.float64),
    I32: np.dtype(np.int32),
    I64: np.dtype(np.int64),
    U32: np.dtype(np.uint32),
    U64: np.dtype(np.uint64),
    BOOL: np.dtype(np.bool_),
}
_F32_MAX = float(np.finfo(np.float32).max)
_F16_MAX = np.float32(65504)
_BF16_MAX_BITS = np.uint32(0x7F7F)


def storage(dtype: DType) -> np.dtype[Any]:
    """The NumPy type that holds values of `dtype`."""
    return _STORAGE[dtype.computes_as]


def cast(x: Array, target: DType) -> Array:
    """The values as `target`; the source type is told by the array."""
    if target.kind == "bool":
        return np.asarray(x != 0)
    if target.kind == "float":
        return _to_float(x, target)
    if x.dtype.kind == "f":
        return _truncate(x, target)
    return _clamp(x, target)


def canonical(x: Array) -> Array:
    """Every NaN of a float array as the one NaN (7fc00000 in f32); other types as they are."""
    if x.dtype.kind != "f":
        return x
    return np.where(np.isnan(x), np.array(np.nan, x.dtype), x)


def to_bits(x: Array, dtype: DType) -> Array:
    """What is stored for each element: unsigned integers (uint32, or uint64 for 64-bit types)."""
    if dtype.name == "f16":
        return canonical(x.astype(np.float16)).view(np.uint16).astype(np.uint32)
    if dtype.name == "bf16":
        return canonical(x).view(np.uint32) >> np.uint32(16)
    if dtype.kind == "bool":
        return x.astype(np.uint32)
    held = np.ascontiguousarray(canonical(x.astype(storage(dtype))))
    return held.view(np.uint64 if dtype.bits == 64 else np.uint32)


def from_bits(bits: Array, dtype: DType) -> Array:
    """The values that `to_bits` stored."""
    if dtype.name == "f16":
        return bits.astype(np.uint16).view(np.float16).astype(np.float32)
    if dtype.name == "bf16":
        return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)
    if dtype.kind == "bool":
        return np.asarray(bits != 0)
    return bits.astype(np.uint64 if dtype.bits == 64 else np.uint32).view(storage(dtype))


def _to_float(x: Array, target: DType) -> Array:
    if target == F64:
        return x.astype(np.float64)
    if x.dtype == np.float64:
        finite_limited = np.where(np.isfinite(x), np.clip(x, -_F32_MAX, _F32_MAX), x)
        single = finite_limited.astype(np.float32)
    else:
        single = x.astype(np.float32)
    if target.name == "f16":
        limited = np.where(np.isfinite(single), np.clip(single, -_F16_MAX, _F16_MAX), single)
        return limited.astype(np.float16).astype(np.float32)
    return _round_bf16(single) if target.name == "bf16" else single


def _round_bf16(x: Array) -> Array:
    bits = np.ascontiguousarray(canonical(x)).view(np.uint32)
    half = np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
    rounded = np.where(np.isfinite(x), bits + half, bits) >> np.uint32(16)
    sign = rounded & np.uint32(0x8000)
    overflowed = np.isfinite(x) & ((rounded & np.uint32(0x7FFF)) > _BF16_MAX_BITS)
    return (np.where(overflowed, sign | _BF16_MAX_BITS, rounded) << np.uint32(16)).view(np.float32)


def _truncate(x: Array, target: DType) -> Array:
    low, high = target.limits
    held = storage(target)
    value = np.trunc(x.astype(np.float64))
    inside = (value > low) & (value < high)
    result = np.where(inside, value, 0.0).astype(held)
    result = np.where(value >= high, np.array(high, held), result)
    return np.where(value <= low, np.array(low, held), result)


def _clamp(x: Array, target: DType) -> Array:
    low, high = target.limits
    held = storage(target)
    if x.dtype == np.uint64:
        return np.minimum(x, np.uint64(high)).astype(held)
    wide = x.astype(np.int64)
    return np.clip(wide, max(low, -(1 << 63)), min(high, (1 << 63) - 1)).astype(held)
