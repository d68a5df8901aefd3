"""exp, log, exp2, log2 and pow of f32, by + - * / in f64 and one rounding (docs/numerics.md, section 3).

No library function whose last bit could differ between machines is called.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

LOG2E = float.fromhex("0x1.71547652b82fep+0")
LN2 = float.fromhex("0x1.62e42fefa39efp-1")
LN2_HI = float.fromhex("0x1.62e42fee00000p-1")
LN2_LO = float.fromhex("0x1.a39ef35793c76p-33")
SQRT2 = float.fromhex("0x1.6a09e667f3bcdp+0")

_TAYLOR = tuple(1.0 / math.factorial(i) for i in range(14))
_ODD = tuple(1.0 / d for d in range(3, 20, 2))


def exp(x: Array) -> Array:
    return _exp64(x.astype(np.float64)).astype(np.float32)


def log(x: Array) -> Array:
    return _log64(x.astype(np.float64)).astype(np.float32)


def log2(x: Array) -> Array:
    return (_log64(x.astype(np.float64)) * LOG2E).astype(np.float32)


def exp2(x: Array) -> Array:
    t = x.astype(np.float64)
    safe = np.where((t <= 128) & (t >= -150), t, 0.0)
    k = np.rint(safe)
    return _with_limits(t, -150.0, 128.0, _scale(_taylor((safe - k) * LN2), k)).astype(np.float32)


def pow(x: Array, y: Array) -> Array:
    """As C's pow, but the sign of a zero base is ignored, and -inf to a power that is not whole is NaN."""
    x, y = np.broadcast_arrays(x.astype(np.float64), y.astype(np.float64))
    a = np.abs(x)
    magnitude = np.where(a == 1, 1.0, _exp64(y * _log64(a)))
    odd = np.isfinite(y) & (np.rint(y * 0.5) * 2 != y)
    result = np.where((x < 0) & odd, -magnitude, magnitude)
    result = np.where((x < 0) & (np.rint(y) != y), np.nan, result)
    result = np.where(x == 0, np.where(y > 0, 0.0, np.inf), result)
    result = np.where(np.isnan(x) | np.isnan(y), np.nan, result)
    return np.where((y == 0) | (x == 1), 1.0, result).astype(np.float32)


def _exp64(t: Array) -> Array:
    safe = np.where((t <= 89) & (t >= -104), t, 0.0)
    k = np.rint(safe * LOG2E)
    r = (safe - k * LN2_HI) - k * LN2_LO
    return _with_limits(t, -104.0, 89.0, _scale(_taylor(r), k))


def _with_limits(t: Array, low: float, high: float, inside: Array) -> Array:
    result = np.where(t > high, np.inf, np.where(t < low, 0.0, inside))
    return np.where(np.isnan(t), np.nan, result)


def _taylor(r: Array) -> Array:
    p = np.full_like(r, _TAYLOR[13])
    for coefficient in _TAYLOR[12::-1]:
        p = p * r + coefficient
    return p


def _scale(p: Array, k: Array) -> Array:
    return p * ((k.astype(np.int64) + 1023) << 52).view(np.float64)


def _log64(x: Array) -> Array:
    bits = np.ascontiguousarray(x).view(np.int64)
    e = ((bits >> 52) & 0x7FF) - 1023
    m = ((bits & ((1 << 52) - 1)) | (1023 << 52)).view(np.float64)
    large = m >= SQRT2
    m, e = np.where(large, m * 0.5, m), (e + large).astype(np.float64)
    s = (m - 1.0) / (m + 1.0)
    z = s * s
    q = np.full_like(z, _ODD[-1])
    for coefficient in _ODD[-2::-1]:
        q = q * z + coefficient
    t = 2.0 * s
    result = e * LN2_HI + ((t + t * (z * q)) + e * LN2_LO)
    result = np.where(x == 0, -np.inf, np.where(x == np.inf, np.inf, result))
    return np.where((x < 0) | np.isnan(x), np.nan, result)
