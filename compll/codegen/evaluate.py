"""Scalar bodies on NumPy: a body is evaluated at all positions of a space at once, one array per statement.

Holds what depends on where a body runs (leaves, loads, draws); the rest of the opcodes are in `scalar.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from compll import sizes
from compll.codegen import ir, philox, scalar
from compll.codegen.convert import cast, storage
from compll.codegen.philox import KeyWords

Array = NDArray[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """One run of a function: what is known from outside, and the values computed so far, at full capacity."""

    environment: Mapping[str, float]
    parameters: Mapping[str, ir.Scalar]
    key: KeyWords
    values: dict[str, Array] = field(default_factory=dict)

    def shape(self, shape: tuple[sizes.Size, ...]) -> tuple[int, ...]:
        return tuple(sizes.extent(s, self.environment) for s in shape)

    def length(self, value: ir.Value) -> int:
        """How many elements of a one-dimensional array there are: its count, or its extent."""
        extent = int(self.values[value.name].shape[0])
        return min(int(self.values[value.count]), extent) if value.count else extent


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """An iteration space: `shape` as numbers and `length`, the positions that there are (row-major)."""

    shape: tuple[int, ...]
    length: int

    @property
    def columns(self) -> int:
        return self.shape[-1] if self.shape else 1

    def flat(self) -> Array:
        return np.arange(self.length, dtype=np.int64)

    def row(self) -> Array:
        return self.flat() // self.columns


Scalars = dict[str, Array]


def evaluate(body: ir.Body, frame: Frame, space: Space, bound: Mapping[str, Array] | None = None) -> Scalars:
    """The value of every statement: an array [length], or [1] where it is the same everywhere.

    `bound` holds the parameters of a custom combine; then the arrays have their shape and nothing has a position.
    """
    scalars: Scalars = dict(bound or {})
    for statement in body:
        scalars[statement.name] = _statement(statement, frame, space, [scalars[a] for a in statement.args])
    return scalars


def _statement(statement: ir.Statement, frame: Frame, space: Space, args: list[Array]) -> Array:
    match ir.OPCODES[statement.opcode].kind:
        case "leaf":
            return _leaf(statement, frame, space)
        case "load":
            return _load(statement, frame, space, args)
        case "draw":
            return _draw(statement, frame, args[0] if args else space.flat())
        case _:
            return scalar.apply(statement.opcode, statement.dtype, args)


def _leaf(statement: ir.Statement, frame: Frame, space: Space) -> Array:
    match statement.opcode:
        case "const":
            number = statement.attribute("value")
        case "param":
            number = frame.parameters[str(statement.attribute("name"))]
        case "size":
            number = sizes.evaluate(_size(statement, "value"), frame.environment)
        case "position":
            return _position(str(statement.attribute("axis")), space).astype(np.uint32)
        case other:
            raise AssertionError(other)
    if isinstance(number, float) and statement.dtype.kind == "float" and statement.opcode != "size":
        return np.array([number], storage(statement.dtype))
    return cast(np.array([number]), statement.dtype)


def _position(axis: str, space: Space) -> Array:
    match axis:
        case "flat":
            return space.flat()
        case "row":
            return space.row()
        case "column":
            return space.flat() % space.columns
        case other:
            raise AssertionError(other)


def _load(statement: ir.Statement, frame: Frame, space: Space, args: list[Array]) -> Array:
    source = statement.source
    assert source is not None
    array = frame.values[source.name]
    if statement.opcode == "load_at":
        return _gather(array, frame.length(source), space, args[0])
    if array.ndim == 0:
        return array.reshape(1)
    if array.ndim < len(space.shape):
        return np.asarray(array[space.row()])
    return array.reshape(-1)[: space.length]


def _gather(array: Array, length: int, space: Space, index: Array) -> Array:
    """array[index], of a matrix within the own row; 0 for an index outside."""
    at = index.astype(np.int64)
    columns = array.shape[-1]
    inside = (at >= 0) & (at < (columns if array.ndim == 2 else length))
    safe = np.where(inside, at, 0)
    if array.ndim == 2:
        safe = space.row() * columns + safe
    if array.size == 0:
        return np.zeros(safe.shape, array.dtype)
    return np.where(inside, array.reshape(-1)[safe], np.zeros(1, array.dtype))


def _draw(statement: ir.Statement, frame: Frame, position: Array) -> Array:
    stream, shared = statement.attribute("stream"), bool(statement.attribute("shared"))
    assert isinstance(stream, int)
    match statement.opcode:
        case "uniform":
            bits = statement.attribute("bits")
            assert isinstance(bits, int)
            return philox.uniform(position, frame.key, stream, shared, bits)
        case "normal":
            return philox.normal(position, frame.key, stream, shared)
        case "choose":
            extent = sizes.extent(_size(statement, "extent"), frame.environment)
            return philox.choose(position, extent, frame.key, stream, shared)
        case "sample_index":
            extent = sizes.extent(_size(statement, "extent"), frame.environment)
            return philox.sample_index(position, extent, frame.key, stream, shared)
        case other:
            raise AssertionError(other)


def _size(statement: ir.Statement, name: str) -> sizes.Size:
    size = statement.attribute(name)
    assert isinstance(size, (sizes.Num, sizes.Var, sizes.Apply))
    return size
