"""Scalar opcodes against Python's whole numbers, fractions and float64 mathematics."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compll.codegen import scalar
from compll.codegen.convert import cast, from_bits, to_bits
from compll.dtypes import BF16, BOOL, F16, F32, F64, I32, U32, uint

i32 = st.integers(-(2**31), 2**31 - 1) | st.sampled_from((-(2**31), -1, 0, 1, 2**31 - 1))
f32 = st.floats(width=32)


def one(opcode, dtype, *args):
    types = {bool: np.bool_, float: np.float32, int: np.int32}
    arrays = [a if isinstance(a, np.ndarray) else np.array([a], types[type(a)]) for a in args]
    with np.errstate(all="ignore"):
        return scalar.apply(opcode, dtype, arrays)[0]


def wrap(x):
    return (x + 2**31) % 2**32 - 2**31


@given(i32, i32)
def test_integers_wrap_and_divide_toward_zero(a, b):
    assert one("add", I32, a, b) == wrap(a + b)
    assert one("sub", I32, a, b) == wrap(a - b)
    assert one("mul", I32, a, b) == wrap(a * b)
    assert one("neg", I32, a) == wrap(-a) and one("abs", I32, a) == wrap(abs(a))
    quotient = (abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1) if b else 0
    assert one("div", I32, a, b) == wrap(quotient)
    assert one("rem", I32, a, b) == (a - quotient * b if b else 0)
    assert one("sign", I32, a) == (a > 0) - (a < 0)


@given(i32, st.integers(-3, 70))
def test_shifts(a, by):
    large = not 0 <= by < 32
    u = np.array([a % 2**32], np.uint32)
    assert one("shl", I32, a, by) == (0 if large else wrap(a << by))
    assert one("shr", I32, a, by) == ((-1 if a < 0 else 0) if large else a >> by)
    assert one("shl", U32, u, np.array([by % 2**32], np.uint32)) == (0 if large else (int(u[0]) << by) % 2**32)
    assert one("shr", U32, u, np.array([by % 2**32], np.uint32)) == (0 if large else int(u[0]) >> by)


@given(st.integers(0, 2**32 - 1))
def test_bit_counts(x):
    u = np.array([x], np.uint32)
    assert one("popcount", U32, u) == bin(x).count("1")
    assert one("leading_zeros", U32, u) == 32 - x.bit_length()
    assert one("bitnot", U32, u) == x ^ 0xFFFFFFFF


@given(f32, f32)
def test_min_and_max(a, b):
    low, high = one("min", F32, float(a), float(b)), one("max", F32, float(a), float(b))
    if math.isnan(a) or math.isnan(b):
        assert np.isnan(low) and np.isnan(high)
    else:
        ordered = sorted((a, b), key=lambda x: (x, math.copysign(1, x)))
        assert [(float(x), bool(np.signbit(x))) for x in (low, high)] == [(x, math.copysign(1, x) < 0) for x in ordered]


@given(f32.filter(math.isfinite), f32.filter(math.isfinite), f32.filter(math.isfinite))
def test_fma_rounds_once(a, b, c):
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    found = float(one("fma", F32, float(a), float(b), float(c)))
    if math.isinf(found):
        assert abs(exact) >= Fraction(2) ** 128 - Fraction(2) ** 103
        return
    error = abs(Fraction(found) - exact)
    for direction in (-np.inf, np.inf):
        near = float(np.nextafter(np.float32(found), np.float32(direction)))
        assert math.isinf(near) or error <= abs(Fraction(near) - exact)


def test_fma_where_two_roundings_differ():
    a, b = np.float32(1 + 2**-12), np.float32(1 + 2**-12)
    c = np.float32(2**-80)
    halfway = Fraction(float(a)) * Fraction(float(b))
    assert float(np.float32(float(halfway))) == 1 + 2**-11  # the tie goes to even without the last bit
    assert one("fma", F32, float(a), float(b), float(c)) == np.float32(1 + 2**-11 + 2**-23)


def test_sign_and_rounding_keep_their_zeros():
    x = np.array([2.5, -0.5, 0.5, -1.5, -0.0, np.nan, np.inf], np.float32)
    np.testing.assert_array_equal(scalar.apply("sign", F32, [x]), [1, -1, 1, -1, 0, np.nan, 1])
    rounded = scalar.apply("round", F32, [x])
    np.testing.assert_array_equal(rounded, [2, -0.0, 0, -2, -0.0, np.nan, np.inf])
    assert np.signbit(rounded[1]) and np.signbit(rounded[4]) and not np.signbit(rounded[2])


def test_bits_of_any_nan_are_canonical():
    x = np.array([0xFFC00001, 0x7F800001, 0x80000000], np.uint32).view(np.float32)
    assert scalar.apply("bits", U32, [x]).tolist() == [0x7FC00000, 0x7FC00000, 0x80000000]


# --- elementary functions --------------------------------------------------------------------------------------------


def ulps(found, exact):
    """The error in units of the last place of f32, at the exact value."""
    spacing = np.spacing(np.maximum(np.abs(exact), 2.0**-126).astype(np.float32)).astype(np.float64)
    return np.abs(found.astype(np.float64) - exact) / spacing


def samples():
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 2**31, 200_000, dtype=np.uint32).view(np.float32)
    near_one = (1 + rng.integers(-300, 300, 2000) * 2.0**-23).astype(np.float32)
    return np.concatenate([bits[np.isfinite(bits)], near_one, rng.uniform(-110, 95, 100_000).astype(np.float32)])


@pytest.mark.parametrize(("name", "exact"), [("exp", np.exp), ("exp2", np.exp2), ("log", np.log), ("log2", np.log2)])
def test_elementary_functions_are_within_051_ulp(name, exact):
    x = samples()
    x = x[x > 0] if name.startswith("log") else x
    with np.errstate(all="ignore"):
        wanted, found = exact(x.astype(np.float64)), scalar.apply(name, F32, [x])
        single = wanted.astype(np.float32)
    representable = np.isfinite(single)
    assert ulps(found[representable], wanted[representable]).max() < 0.51
    np.testing.assert_array_equal(found[~representable], single[~representable])


def test_pow_is_within_051_ulp():
    rng = np.random.default_rng(1)
    x = np.exp(rng.uniform(-20, 20, 100_000)).astype(np.float32)
    y = rng.uniform(-4, 4, x.size).astype(np.float32)
    found, wanted = scalar.apply("pow", F32, [x, y]), np.power(x.astype(np.float64), y.astype(np.float64))
    assert ulps(found, wanted).max() < 0.51


@pytest.mark.parametrize("x", [-np.inf, -2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, np.inf, np.nan])
@pytest.mark.parametrize("y", [-np.inf, -3.0, -2.0, -0.5, 0.0, 0.5, 2.0, 3.0, np.inf, np.nan])
def test_pow_at_the_edges_is_that_of_c(x, y):
    """But for -inf to a power that is not whole, which is NaN like any other negative base."""
    if x == -np.inf and abs(y) == 0.5:
        wanted = np.nan
    else:
        with np.errstate(all="ignore"):
            wanted = np.power(np.float64(x), np.float64(y))
    np.testing.assert_equal(one("pow", F32, x, y), np.float32(wanted))


def test_the_other_edges():
    with np.errstate(all="ignore"):
        x = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, -1.0], np.float32)
        np.testing.assert_array_equal(scalar.apply("exp", F32, [x]), np.float32([np.nan, np.inf, 0, 1, 1, np.exp(-1)]))
        logs = np.float32([np.nan, np.inf, np.nan, -np.inf, -np.inf, np.nan])
        np.testing.assert_array_equal(scalar.apply("log", F32, [x]), logs)
    whole = np.float32(2.0) ** np.arange(-149, 128).astype(np.float32)
    np.testing.assert_array_equal(scalar.apply("log2", F32, [whole]), np.arange(-149, 128))
    np.testing.assert_array_equal(scalar.apply("exp2", F32, [np.arange(-149, 128).astype(np.float32)]), whole)


# --- casts -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [I32, U32, uint(1), uint(2), uint(7), uint(16)])
def test_float_to_integer_clamps_and_truncates(dtype):
    low, high = dtype.limits
    values = [0.0, -0.0, 0.99, 1.5, -0.5, -1.5, 2.9, 3.0, 200.0, 1e30, -1e30, np.inf, -np.inf, 2.0**31, 2.0**32]
    with np.errstate(all="ignore"):
        found = cast(np.array([*values, np.nan], np.float32), dtype)
    clamped = [min(max(v, low), high) for v in np.float32(values).astype(float)]
    assert found.tolist() == [*(int(v) for v in clamped), 0]


def test_integer_to_narrower_integer_clamps():
    x = np.array([-5, 0, 3, 4, 2**31 - 1, -(2**31)], np.int32)
    assert cast(x, uint(2)).tolist() == [0, 0, 3, 3, 3, 0]
    assert cast(x, U32).tolist() == [0, 0, 3, 4, 2**31 - 1, 0]
    assert cast(np.array([2**32 - 1, 7], np.uint32), I32).tolist() == [2**31 - 1, 7]
    assert cast(np.array([0.0, -0.0, np.nan, 1e-45], np.float32), BOOL).tolist() == [False, False, True, True]
    assert cast(np.array([True, False]), F32).tolist() == [1, 0]


def test_to_f16_and_bf16_rounds_to_nearest_even_and_saturates():
    x = np.float32([65504, 65519.996, 65520, 1e9, -1e9, np.inf, 1 + 2**-11, 1 + 3 * 2**-11, 2**-25, 3 * 2**-25])
    wanted = [65504, 65504, 65504, 65504, -65504, np.inf, 1, 1 + 2**-9, 0, 2**-23]
    assert cast(x, F16).tolist() == wanted
    largest = float(from_bits(np.array([0x7F7F]), BF16)[0])
    x = np.array([3.4e38, -3.4e38, np.inf, 1 + 2**-8, 1 + 3 * 2**-8, 1e-40], np.float32)
    found = cast(x, BF16).tolist()
    assert found[:5] == [largest, -largest, np.inf, 1, 1 + 2**-6] and found[5] > 0
    top = float(np.finfo(np.float32).max)
    assert cast(np.array([1e39, -1e300, np.inf]), F32).tolist() == [top, -top, np.inf]


@pytest.mark.parametrize("dtype", [F16, BF16])
def test_every_16_bit_pattern_survives(dtype):
    patterns = np.arange(2**16, dtype=np.uint32)
    values = from_bits(patterns, dtype)
    nan = np.isnan(values)
    assert to_bits(values, dtype)[~nan].tolist() == patterns[~nan].tolist()
    assert set(to_bits(values, dtype)[nan].tolist()) == {0x7E00 if dtype == F16 else 0x7FC0}
    with np.errstate(all="ignore"):
        again = cast(values, dtype)
    np.testing.assert_array_equal(again, values)


@given(f32)
def test_bf16_is_the_nearest(x):
    found = float(cast(np.array([x], np.float32), BF16)[0])
    if not math.isfinite(x):
        assert found == x or math.isnan(x)
        return
    grid = from_bits(np.arange(0x7F80, dtype=np.uint32), BF16).astype(np.float64)
    at = np.searchsorted(grid, abs(x))
    near = min((abs(abs(x) - g), i % 2, g) for i, g in list(enumerate(grid))[max(0, at - 1) : at + 1])
    assert abs(found) == near[2]


def test_f64_survives_where_it_is_asked_for():
    assert cast(np.array([0.1]), F64)[0] == 0.1 and cast(np.array([3], np.int32), F64)[0] == 3.0
