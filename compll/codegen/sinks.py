"""What becomes of a sweep's scalars: the meaning of every sink, in NumPy (docs/numerics.md, sections 4 to 6)."""

from __future__ import annotations

from typing import Any, assert_never

import numpy as np
from numpy.typing import NDArray

from compll import sizes
from compll.codegen import ir, reduce
from compll.codegen.convert import canonical, storage
from compll.codegen.evaluate import Frame, Scalars, Space, evaluate
from compll.dtypes import DType

Array = NDArray[Any]


def apply(sink: ir.Sink, frame: Frame, space: Space, scalars: Scalars, dtypes: dict[str, DType]) -> None:
    """Put the sink's results into the frame; `dtypes` has the type of every scalar."""

    def column(name: str) -> Array:
        return np.broadcast_to(scalars[name], (space.length,))

    match sink:
        case ir.Write():
            _store(frame, sink.result, column(sink.value))
        case ir.Fold():
            values = _rows(column(sink.value), space, sink.per_row)
            results = reduce.fold(sink.combine, values, dtypes[sink.value], _custom(sink.combine, frame))
            for result, array in zip(sink.results, results, strict=True):
                _store(frame, result, array)
        case ir.Scan():
            values = _rows(column(sink.value), space, sink.per_row)
            custom = _custom(sink.combine, frame)
            scanned = reduce.scan(sink.combine, values, dtypes[sink.value], sink.exclusive, custom)
            _store(frame, sink.result, scanned.reshape(-1))
        case ir.Keep():
            at, cut = _keep(column(sink.predicate), frame.key.step, sizes.extent(sink.limit, frame.environment))
            frame.values[sink.count.name] = np.array(at.size, np.uint32)
            frame.values[sink.cut.name] = np.array(cut, np.uint32)
            _store(frame, sink.index, at)
            for result, name in sink.carried:
                _store(frame, result, column(name)[at])
        case ir.Top():
            _top(sink, frame, space, column(sink.key), {name: column(name) for _, name in sink.carried})
        case ir.Kth():
            k = sizes.extent(sink.k, frame.environment)
            _store(frame, sink.result, _kth(_rows(column(sink.key), space, sink.per_row), k))
        case ir.Put():
            _put(sink, frame, space, column(sink.index), column(sink.value))
        case _:
            assert_never(sink)


def _store(frame: Frame, value: ir.Value, flat: Array) -> None:
    """A value from its first elements in row-major order; the rest is zero."""
    result = np.zeros(frame.shape(value.shape), storage(value.dtype))
    result.reshape(-1)[: flat.size] = flat.reshape(-1)
    frame.values[value.name] = result


def _rows(values: Array, space: Space, per_row: bool) -> Array:
    return values.reshape(space.shape) if per_row else values.reshape(1, -1)


def _custom(combine: ir.Combine, frame: Frame) -> reduce.CustomCombine:
    nowhere = Space(shape=(), length=1)

    def join(left: Array, right: Array) -> Array:
        bound = {combine.left: left, combine.right: right}
        result = evaluate(combine.body, frame, nowhere, bound)[combine.result]
        return np.broadcast_to(result, np.broadcast_shapes(left.shape, right.shape))

    return join


def _keep(matches: Array, step: int, limit: int) -> tuple[Array, int]:
    """The kept positions, ascending, and how many matches were left out."""
    positions = np.nonzero(matches)[0]
    if positions.size <= limit:
        return positions, 0
    start = ((step % matches.size) * (limit % matches.size)) % matches.size
    from_start = (positions - start) % matches.size
    kept = positions[np.argsort(from_start)[:limit]]
    return np.sort(kept), positions.size - limit


def _descending(keys: Array) -> Array:
    """The positions of each row of [rows, n] in the order of selection."""
    if keys.dtype.kind != "f":
        return np.lexsort((~keys.astype(np.int64),), axis=-1)  # `-` of the least number is no larger one
    nan = np.isnan(keys)
    return np.lexsort((np.where(nan, np.zeros_like(keys), -keys), ~nan), axis=-1)


def _top(sink: ir.Top, frame: Frame, space: Space, key: Array, carried: dict[str, Array]) -> None:
    keys = _rows(key, space, sink.per_row)
    rows, n = keys.shape
    k = sizes.extent(sink.k, frame.environment)
    at = np.sort(_descending(keys)[:, :k], axis=1)
    missing = ((0, 0), (0, k - at.shape[1]))
    _store(frame, sink.index, np.pad(at, missing, constant_values=n))
    for result, name in sink.carried:
        chosen = np.take_along_axis(carried[name].reshape(rows, n), at, axis=1)
        _store(frame, result, np.pad(chosen, missing))


def _kth(keys: Array, k: int) -> Array:
    rows, n = keys.shape
    if n == 0:
        return np.zeros(rows, keys.dtype)
    at = _descending(keys)[:, min(max(k, 1), n) - 1]
    key = keys[np.arange(rows), at]
    return np.where(key == 0, np.zeros_like(key), canonical(key))


def _put(sink: ir.Put, frame: Frame, space: Space, index: Array, value: Array) -> None:
    shape = frame.shape(sink.result.shape)
    held = storage(sink.result.dtype)
    result = frame.values[sink.base.name].copy() if sink.base else np.zeros(shape, held)
    at = index.astype(np.int64)
    inside = (at >= 0) & (at < shape[-1])
    if len(shape) == 2:
        at = space.row() * shape[1] + at
    result.reshape(-1)[at[inside]] = value[inside]
    frame.values[sink.result.name] = result
