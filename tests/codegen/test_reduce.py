"""The reduction tree and the scan order against loops over single elements, written from docs/numerics.md."""

from __future__ import annotations

import numpy as np
import pytest

from compll.codegen import ir, reduce
from compll.dtypes import BOOL, F32, F64, I32, U32

LENGTHS = (0, 1, 2, 63, 64, 65, 127, 1025, 4095, 4096, 4097, 8192, 8193, 20001)


def tree(elements, identity, insert, merge):
    """Section 4, one element at a time; `elements` are whatever `insert` takes."""
    if not elements:
        return identity
    results = []
    for start in range(0, len(elements), 4096):
        chunk = elements[start : start + 4096]
        lane = [identity] * 64
        for j, element in enumerate(chunk):
            lane[j % 64] = insert(lane[j % 64], element, j // 64 + 1)
        h = 32
        while h:
            for i in range(h):
                lane[i] = merge(lane[i], lane[i + h])
            h //= 2
        results.append(lane[0])
    return results[0] if len(results) == 1 else tree(results, identity, lambda a, b, _: merge(a, b), merge)


def scan(elements, identity, join, exclusive):
    """Section 5, one element at a time."""
    out, chunk_carry = [], identity
    for start in range(0, len(elements), 4096):
        chunk, carry = elements[start : start + 4096], identity
        for at in range(0, len(chunk), 64):
            local = identity
            for x in chunk[at : at + 64]:
                before, local = local, join(local, x)
                out.append(join(chunk_carry, join(carry, before if exclusive else local)))
            carry = join(carry, local)
        chunk_carry = join(chunk_carry, carry)
    return out


def data(n, seed=0):
    rng = np.random.default_rng(seed)
    return (rng.standard_normal(n) * 10.0 ** rng.integers(-6, 6, n)).astype(np.float32)


@pytest.mark.parametrize("n", LENGTHS)
def test_sum(n):
    x = data(n)
    (found,) = reduce.fold(ir.Combine(kind="add"), x[None], F32)
    wanted = tree(list(x), np.float32(0), lambda a, b, _: a + b, lambda a, b: a + b)
    assert found.dtype == np.float32 and found[0] == wanted


def test_sum_of_negative_zeros_is_positive_zero():
    (found,) = reduce.fold(ir.Combine(kind="add"), np.full((1, 70), -0.0, np.float32), F32)
    assert found[0] == 0 and not np.signbit(found[0])


def test_sums_wrap_in_integers_and_stay_wide_in_f64():
    x = np.array([[2**31 - 1, 5, -7]], np.int32)
    assert reduce.fold(ir.Combine(kind="add"), x, I32)[0].tolist() == [2**31 - 3]
    (wide,) = reduce.fold(ir.Combine(kind="add"), np.array([[1e30, 1e-30]]) ** 2, F64)
    assert wide[0] == 1e30**2


@pytest.mark.parametrize("n", (1, 65, 4097))
def test_rows_are_reduced_on_their_own(n):
    x = data(3 * n).reshape(3, n)
    (found,) = reduce.fold(ir.Combine(kind="add"), x, F32)
    assert found.tolist() == [reduce.fold(ir.Combine(kind="add"), row[None], F32)[0][0] for row in x]


@pytest.mark.parametrize(("kind", "sign"), [("max", 1), ("min", -1)])
def test_extremes(kind, sign):
    def one(values):
        return reduce.fold(ir.Combine(kind=kind), np.array([values], np.float32), F32)[0][0]

    assert one([1.0, 3.0, 2.0]) == (3.0 if sign > 0 else 1.0)
    assert np.isnan(one([1.0, np.nan, 2.0])) and np.isnan(one([np.nan, sign * np.inf]))
    assert np.signbit(one([0.0, -0.0])) == np.signbit(one([-0.0, 0.0])) == (sign < 0)
    assert one([]) == -sign * np.inf
    limits = U32.limits[::-1] if sign < 0 else U32.limits
    assert reduce.fold(ir.Combine(kind=kind), np.zeros((1, 0), np.uint32), U32)[0][0] == limits[0]


def test_any_and_all():
    for values in ([], [False], [True], [True, False]):
        x = np.array([values], bool)
        assert reduce.fold(ir.Combine(kind="and"), x, BOOL)[0][0] == all(values)
        assert reduce.fold(ir.Combine(kind="or"), x, BOOL)[0][0] == any(values)


@pytest.mark.parametrize(
    ("values", "largest", "smallest"),
    [
        ([], 0, 0),
        ([1.0], 0, 0),
        ([2.0, 5.0, 5.0, -1.0, -1.0], 1, 3),
        ([-0.0, 0.0], 0, 0),
        ([1.0, np.nan, 9.0, np.nan], 1, 1),
        ([-np.inf, -np.inf], 0, 0),
    ],
)
def test_positions_of_extremes(values, largest, smallest):
    x = np.array([values], np.float32)
    assert reduce.fold(ir.Combine(kind="argmax"), x, F32)[0].tolist() == [largest]
    assert reduce.fold(ir.Combine(kind="argmin"), x, F32)[0].tolist() == [smallest]


def test_position_of_the_extreme_is_the_lowest_across_lanes_and_chunks():
    x = np.zeros((2, 10000), np.float32)
    x[0, [9000, 70, 5000]] = 1
    x[1, [9000, 4097]] = 1
    assert reduce.fold(ir.Combine(kind="argmax"), x, F32)[0].tolist() == [70, 4097]


@pytest.mark.parametrize("n", LENGTHS)
def test_moments(n):
    x = data(n)

    def insert(lane, element, c):
        count, mean, m2 = lane
        if isinstance(element, tuple):
            return merge(lane, element)
        value = float(element)
        delta = value - mean
        mean = mean + delta * (1.0 / c)
        return count + 1.0, mean, m2 + delta * (value - mean)

    def merge(a, b):
        (na, ma, qa), (nb, mb, qb) = a, b
        if nb == 0 or na == 0:
            return a if nb == 0 else b
        n = na + nb
        delta, t = mb - ma, nb / n
        return n, ma + delta * t, (qa + qb) + (delta * delta) * (na * t)

    _, mean, m2 = tree(list(x), (0.0, 0.0, 0.0), insert, merge)
    found = reduce.fold(ir.Combine(kind="moments"), x[None], F32)
    assert [float(f[0]) for f in found] == [mean, m2]
    if n:
        np.testing.assert_allclose(m2, np.var(x.astype(np.float64)) * n, rtol=1e-9)


@pytest.mark.parametrize("value", [0.1, 1e30, -3.3e-39])
def test_a_constant_has_no_deviation(value):
    mean, m2 = reduce.fold(ir.Combine(kind="moments"), np.full((1, 5001), value, np.float32), F32)
    assert mean[0] == np.float32(value) and m2[0] == 0


def test_custom_combines_in_the_written_order():
    """left * 0.5 + right is neither commutative nor associative, and 1 is not its neutral element."""

    def join(a, b):
        return (a * np.float32(0.5) + b).astype(np.float32)

    combine = ir.Combine(kind="custom", identity=1.0, left="a", right="b", result="c")
    x = data(5000)
    (found,) = reduce.fold(combine, x[None], F32, join)
    one, half = np.float32(1), np.float32(0.5)
    assert found[0] == tree(list(x), one, lambda a, b, _: a * half + b, lambda a, b: a * half + b)
    for exclusive in (False, True):
        scanned = reduce.scan(combine, x[None], F32, exclusive, join)[0]
        assert scanned.tolist() == [float(v) for v in scan(list(x), one, lambda a, b: a * half + b, exclusive)]


@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("n", LENGTHS)
def test_scan(n, exclusive):
    x = data(n)
    found = reduce.scan(ir.Combine(kind="add"), x[None], F32, exclusive)[0]
    wanted = scan(list(x), np.float32(0), lambda a, b: a + b, exclusive)
    assert found.dtype == np.float32 and found.tolist() == [float(v) for v in wanted]


def test_scan_along_rows_and_of_integers():
    x = np.arange(12, dtype=np.uint32).reshape(3, 4)
    assert reduce.scan(ir.Combine(kind="add"), x, U32, False).tolist() == np.cumsum(x, axis=1).tolist()
    running = np.maximum.accumulate(x, axis=1)
    assert reduce.scan(ir.Combine(kind="max"), x, U32, False).tolist() == running.tolist()
