"""The one reduction tree and the one scan order (docs/numerics.md, sections 4 and 5), over rows of NumPy arrays.

An `Algebra` says how partial results combine; a partial result is a tuple of arrays of equal shape. The last axis is
the one reduced, so a whole space is one row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from compll.codegen import scalar
from compll.codegen.ir import Combine
from compll.dtypes import DType

Array = NDArray[Any]
Partial = tuple[Array, ...]
CustomCombine = Callable[[Array, Array], Array]

CHUNK = 4096
LANES = 64
_NO_POSITION = np.int64(1) << np.int64(62)


@dataclass(frozen=True, slots=True, kw_only=True)
class Algebra:
    """`insert(partial, element, j)` adds a lane's j-th element (from 0) of a chunk; `merge` joins two partials."""

    identity: tuple[Any, ...]
    insert: Callable[[Partial, Partial, int], Partial]
    merge: Callable[[Partial, Partial], Partial]


def algebra(combine: Combine, dtype: DType, custom: CustomCombine | None = None) -> Algebra:
    """The algebra of a combine over values of `dtype`; `custom` evaluates the body of a custom one."""
    match combine.kind:
        case "add":
            return _simple(0, np.add)
        case "min":
            return _simple(np.inf if dtype.kind == "float" else dtype.limits[1], scalar.minimum)
        case "max":
            return _simple(-np.inf if dtype.kind == "float" else dtype.limits[0], scalar.maximum)
        case "and":
            return _simple(True, np.logical_and)
        case "or":
            return _simple(False, np.logical_or)
        case "argmax":
            return _extreme(np.greater)
        case "argmin":
            return _extreme(np.less)
        case "moments":
            return Algebra(identity=(0.0, 0.0, 0.0), insert=_insert_moment, merge=_merge_moments)
        case "custom":
            assert custom is not None and combine.identity is not None
            return _simple(combine.identity, custom)


def fold(combine: Combine, values: Array, dtype: DType, custom: CustomCombine | None = None) -> Partial:
    """Reduce [rows, n] along the last axis to one array [rows] for each result of the combine."""
    rule = algebra(combine, dtype, custom)
    if combine.kind in ("argmax", "argmin"):
        position = np.broadcast_to(np.arange(values.shape[1], dtype=np.int64), values.shape)
        _, found = _tree(rule, (values, position), _identity(rule, values, extra=np.int64))
        return (np.where(found == _NO_POSITION, 0, found).astype(np.uint32),)
    if combine.kind == "moments":
        empty = tuple(np.zeros(values.shape[:1], np.float64) for _ in range(3))
        return _tree(rule, (values.astype(np.float64),), empty)[1:]
    return _tree(rule, (values,), _identity(rule, values))


def scan(combine: Combine, values: Array, dtype: DType, exclusive: bool, custom: CustomCombine | None = None) -> Array:
    """Prefix combination of [rows, n] along the last axis."""
    rule = algebra(combine, dtype, custom)
    rows, n = values.shape
    strips = _padded((values,), n)[0]
    identity = np.full(rows, rule.identity[0], values.dtype)

    def join(a: Array, b: Array) -> Array:
        return rule.merge((a,), (b,))[0]

    local, totals = _prefixes(strips, identity, join, exclusive)
    carries, chunk_totals = _prefixes(totals, identity, join, exclusive=True)
    chunk_carries, _ = _prefixes(chunk_totals, identity, join, exclusive=True)
    result = join(chunk_carries[:, :, None, None], join(carries[..., None], local))
    return result.reshape(rows, -1)[:, :n]


def _prefixes(values: Array, identity: Array, join: CustomCombine, exclusive: bool) -> tuple[Array, Array]:
    """Sequential prefixes along the last axis from the identity, and the totals."""
    result = np.empty_like(values)
    total = np.broadcast_to(identity.reshape(-1, *[1] * (values.ndim - 2)), values.shape[:-1])
    for i in range(values.shape[-1]):
        before, total = total, join(total, values[..., i])
        result[..., i] = before if exclusive else total
    return result, total


def _identity(rule: Algebra, values: Array, extra: Any = None) -> Partial:
    dtypes = (values.dtype,) if extra is None else (values.dtype, extra)
    return tuple(np.full(values.shape[:1], x, d) for x, d in zip(rule.identity, dtypes, strict=True))


def _tree(rule: Algebra, items: Partial, identity: Partial) -> Partial:
    """The tree of section 4 over arrays [rows, n]; `identity` holds arrays [rows]."""
    n = items[0].shape[1]
    if n == 0:
        return identity
    results = _chunk_results(items, n, identity, rule.insert, rule.merge)
    while (n := results[0].shape[1]) > 1:
        results = _chunk_results(results, n, identity, lambda lanes, item, _: rule.merge(lanes, item), rule.merge)
    return tuple(r[:, 0] for r in results)


def _chunk_results(
    items: Partial, n: int, identity: Partial, insert: Callable[[Partial, Partial, int], Partial],
    merge: Callable[[Partial, Partial], Partial],
) -> Partial:  # fmt: skip
    padded = _padded(items, n)
    rows, chunks, strips, _ = padded[0].shape
    present = (np.arange(chunks * strips * LANES) < n).reshape(chunks, strips, LANES)
    lanes = tuple(np.broadcast_to(x[:, None, None], (rows, chunks, LANES)) for x in identity)
    for j in range(strips):
        combined = insert(lanes, tuple(p[:, :, j] for p in padded), j)
        lanes = tuple(np.where(present[:, j], new, old) for new, old in zip(combined, lanes, strict=True))
    half = LANES // 2
    while half:
        lanes = merge(tuple(x[..., :half] for x in lanes), tuple(x[..., half : 2 * half] for x in lanes))
        half //= 2
    return tuple(x[..., 0] for x in lanes)


def _padded(items: Partial, n: int) -> Partial:
    """Arrays [rows, n] as [rows, chunks, strips, lanes], filled up with zeros."""
    strips = min(CHUNK // LANES, -(-n // LANES)) or 1
    chunks = -(-n // (strips * LANES)) or 1
    space = chunks * strips * LANES
    return tuple(np.pad(x, ((0, 0), (0, space - n))).reshape(x.shape[0], chunks, strips, LANES) for x in items)


def _simple(identity: Any, combine: CustomCombine) -> Algebra:
    return Algebra(
        identity=(identity,),
        insert=lambda lanes, item, _: (combine(lanes[0], item[0]),),
        merge=lambda a, b: (combine(a[0], b[0]),),
    )


def _extreme(beats: Callable[[Array, Array], Any]) -> Algebra:
    """Pairs (key, position): a present one before none, NaN before numbers, the extreme, the lowest position."""

    def merge(a: Partial, b: Partial) -> Partial:
        (key_a, at_a), (key_b, at_b) = a, b
        nan_a, nan_b = key_a != key_a, key_b != key_b
        tie = (key_a == key_b) | (nan_a & nan_b)
        better = np.where(tie, at_a < at_b, nan_a | (~nan_b & beats(key_a, key_b)))
        take_a = (at_b == _NO_POSITION) | ((at_a != _NO_POSITION) & better)
        return np.where(take_a, key_a, key_b), np.where(take_a, at_a, at_b)

    return Algebra(identity=(0, _NO_POSITION), insert=lambda lanes, item, _: merge(lanes, item), merge=merge)


def _insert_moment(lanes: Partial, item: Partial, j: int) -> Partial:
    n, mean, m2 = lanes
    (x,) = item
    delta = x - mean
    mean = mean + delta * (1.0 / (j + 1))
    return n + 1.0, mean, m2 + delta * (x - mean)


def _merge_moments(a: Partial, b: Partial) -> Partial:
    (na, mean_a, m2_a), (nb, mean_b, m2_b) = a, b
    n = na + nb
    delta = mean_b - mean_a
    t = nb / np.where(n == 0, 1.0, n)
    mean = mean_a + delta * t
    m2 = (m2_a + m2_b) + (delta * delta) * (na * t)
    left, right = nb == 0, na == 0

    def either(merged: Array, of_a: Array, of_b: Array) -> Array:
        return np.where(left, of_a, np.where(right, of_b, merged))

    return n, either(mean, mean_a, mean_b), either(m2, m2_a, m2_b)
