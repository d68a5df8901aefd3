"""The meaning of every program: runs a function of the IR with NumPy. Short, slow, obviously right; the oracle.

Runs fused and unfused programs alike. Knows nothing of payload bytes (`packing.py`) or devices.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any, assert_never

import numpy as np
from numpy.typing import NDArray

from compll import sizes
from compll.codegen import ir, sinks
from compll.codegen.convert import canonical, storage
from compll.codegen.evaluate import Frame, Space, evaluate
from compll.codegen.philox import KeyWords
from compll.diagnostics import InternalError

Array = NDArray[Any]
PortName = tuple[ir.Role, str]

_NORM_SHARE = 2.0**-10


def size_environment(program: ir.Program, values: Mapping[str, float]) -> dict[str, float]:
    """`values` (`numel`, the dimensions' names, the parameters) and the program's named sizes, in order."""
    environment = dict(values)
    for name, size in program.sizes:
        environment[name] = sizes.evaluate(size, environment)
    return environment


def to_view(view: ir.GradientView, flat: Array, environment: Mapping[str, float]) -> Array:
    """A gradient's elements [numel] in the shape of the view; the end of the last block is zeros."""
    shape = tuple(sizes.extent(s, environment) for s in view.shape)
    result = np.zeros(shape, flat.dtype)
    result.reshape(-1)[: flat.size] = flat
    return result


def from_view(array: Array, environment: Mapping[str, float]) -> Array:
    """The elements [numel] of an array in the gradient's view."""
    return array.reshape(-1)[: int(environment["numel"])]


def run(
    function: ir.Function,
    inputs: Mapping[PortName, Array],
    environment: Mapping[str, float],
    parameters: Mapping[str, ir.Scalar],
    key: KeyWords,
) -> dict[PortName, Array]:
    """Run a function: arrays by port in, arrays by port out; inputs are not changed.

    Arrays have the port's shape and computing type (u1..u16 as uint32, f16 and bf16 as float32); bounded ones are
    at full capacity, zero beyond their count. `environment` holds the named sizes too (`size_environment`). NaNs come
    out canonical. Raises InternalError for an input that is missing or of another shape.
    """
    steps = rounds(function, inputs, environment, parameters, key)
    while True:
        try:
            next(steps)  # alone, the mean over all ranks is the own value
        except StopIteration as end:
            results: dict[PortName, Array] = end.value
            return results


def rounds(
    function: ir.Function,
    inputs: Mapping[PortName, Array],
    environment: Mapping[str, float],
    parameters: Mapping[str, ir.Scalar],
    key: KeyWords,
) -> Generator[Array, None, dict[PortName, Array]]:
    """`run`, waiting at every collective: yields the f32 array that is to become, in place, the mean over all ranks."""
    frame = Frame(environment=environment, parameters=parameters, key=key)
    for port in function.inputs:
        frame.values[port.value.name] = _input(function, port, inputs, frame)
    for port in function.inputs:
        _clear_beyond_count(port.value, frame)
    for operation in function.operations:
        with np.errstate(all="ignore"):
            _operation(operation, frame)
        if isinstance(operation, ir.AllReduce):
            yield frame.values[operation.result.name]
    return {(p.role, p.name): canonical(frame.values[p.value.name]) for p in function.outputs}


def _input(function: ir.Function, port: ir.Port, inputs: Mapping[PortName, Array], frame: Frame) -> Array:
    found = inputs.get((port.role, port.name))
    shape, held = frame.shape(port.value.shape), storage(port.value.dtype)
    if found is None or found.shape != shape or found.dtype != held:
        got = "nothing" if found is None else f"{found.dtype}{list(found.shape)}"
        place = f"function `{function.name}`: {port.role} `{port.name}`"
        raise InternalError(f"{place} needs {held}{list(shape)}, got {got}")
    return found.copy()


def _clear_beyond_count(value: ir.Value, frame: Frame) -> None:
    if value.count is not None:
        frame.values[value.name][frame.length(value) :] = 0


def _operations(operations: tuple[ir.Operation, ...], frame: Frame) -> None:
    for operation in operations:
        _operation(operation, frame)


def _operation(operation: ir.Operation, frame: Frame) -> None:
    values = frame.values
    match operation:
        case ir.Sweep():
            _sweep(operation, frame)
        case ir.Sort():
            values[operation.result.name] = _sort(operation, frame)
        case ir.MatMul():
            left, right = values[operation.left.name], values[operation.right.name]
            left = left.T if operation.transpose_left else left
            right = right.T if operation.transpose_right else right
            values[operation.result.name] = left @ right
        case ir.Transpose():
            values[operation.result.name] = np.ascontiguousarray(values[operation.source.name].T)
        case ir.Orthonormalize():
            values[operation.result.name] = _orthonormalize(values[operation.source.name])
        case ir.AllReduce():
            values[operation.result.name] = np.array(values[operation.source.name], np.float32)
        case ir.Loop():
            _loop(operation, frame)
        case _:
            assert_never(operation)


def _sweep(sweep: ir.Sweep, frame: Frame) -> None:
    shape = frame.shape(sweep.shape)
    length = int(np.prod(shape, dtype=np.int64))
    if sweep.count is not None:
        length = min(length, int(frame.values[sweep.count]))
    space = Space(shape=shape, length=length)
    scalars = evaluate(sweep.body, frame, space)
    dtypes = {s.name: s.dtype for s in sweep.body}
    for sink in sweep.sinks:
        sinks.apply(sink, frame, space, scalars, dtypes)


def _loop(loop: ir.Loop, frame: Frame) -> None:
    values = frame.values
    for carried in loop.carried:
        values[carried.parameter.name] = values[carried.initial.name]
    for _ in range(loop.limit):
        _operations(loop.head, frame)
        if not values[loop.condition.name]:
            break
        _operations(loop.body, frame)
        following = [values[c.yielded.name] for c in loop.carried]
        for carried, array in zip(loop.carried, following, strict=True):
            values[carried.parameter.name] = array
    for carried in loop.carried:
        values[carried.result.name] = values[carried.parameter.name]


def _sort(sort: ir.Sort, frame: Frame) -> Array:
    """Along the last axis, the first `length` elements of a bounded array; zeros of different sign are told apart."""
    source = frame.values[sort.source.name]
    result = source.copy()
    used = result[: frame.length(sort.source)] if source.ndim == 1 else result
    sign = ~np.signbit(used) if used.dtype.kind == "f" else np.zeros(used.shape, bool)
    nan = used != used
    order = np.lexsort((sign, np.where(nan, np.zeros_like(used), used), nan), axis=-1)
    ordered = canonical(np.take_along_axis(used, order, axis=-1))
    used[...] = ordered[..., ::-1] if sort.descending else ordered
    return result


def _orthonormalize(matrix: Array) -> Array:
    """Modified Gram-Schmidt in f64 over the columns, each projected twice."""
    result = matrix.astype(np.float64)
    for j in range(result.shape[1]):
        column = result[:, j]
        before = np.sqrt(column @ column)
        for _ in range(2):
            for i in range(j):
                column = column - result[:, i] * (result[:, i] @ column)
        after = np.sqrt(column @ column)
        result[:, j] = column / after if after > _NORM_SHARE * before else 0.0
    return result.astype(np.float32)
