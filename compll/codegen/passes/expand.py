"""Evaluating a body elsewhere than it was written: at another sweep's position, row or index.

A load of an array that a `Write` defines becomes the defining body, evaluated where the element is asked for:
positions become the index, loads become gathers, draws take the index as their position. Where an index may lie
beyond the array, the result is wrapped so that it is 0 there, as a load from memory would be.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from compll.codegen import ir
from compll.codegen.passes.body import BodyBuilder
from compll.codegen.passes.definition import Definition, Kind, Shape, Statements, moved
from compll.dtypes import BOOL, U32, DType
from compll.sizes import Size

_BEYOND = (1 << 32) - 1


@dataclass(frozen=True, slots=True)
class Place:
    """Where a body is evaluated, as seen from the sweep under construction; `index` is a statement of it."""

    kind: Kind
    index: str = ""


OWN = Place("own")


@dataclass(frozen=True, slots=True)
class _Asked:
    """A statement of a body over `shape`, wanted at a place under the name `wish`."""

    block: Statements
    shape: Shape
    name: str
    place: Place
    wish: str

    @property
    def key(self) -> tuple[int, str, Place]:
        return id(self.block), self.name, self.place


@dataclass
class Expander:
    """Copies bodies into the body of one sweep over `shape` (and `count`).

    `inlines` decides whether a defined value is computed here or loaded; `below` gives extents that bound the elements
    of index arrays.
    """

    shape: Shape
    count: str | None
    definitions: Mapping[str, Definition]
    inlines: Callable[[ir.Value, Kind], bool]
    below: Mapping[str, Size]
    builder: BodyBuilder = field(default_factory=BodyBuilder)
    _done: dict[tuple[int, str, Place], str] = field(default_factory=dict)

    def value(self, definition: Definition, place: Place) -> str:
        """An element of a defined array, under the array's name."""
        name = self.statement(definition.statements, definition.shape, definition.value, place, definition.result.name)
        return self.builder.cast(name, definition.result.dtype)

    def statement(self, block: Statements, shape: Shape, name: str, place: Place, wish: str = "") -> str:
        """The statement `name` of a body over `shape`, evaluated at `place`; returns its name here."""
        asked = _Asked(block, shape, name, place, wish or name)
        pending = [asked]  # chains of statements are as long as programs: too long for the interpreter's stack
        while pending:
            latest = pending[-1]
            before = self._missing(latest)
            if before is not None:
                pending.append(before)
                continue
            if latest.key not in self._done:
                self._done[latest.key] = self._copy(latest)
            pending.pop()
        return self._done[asked.key]

    def _missing(self, asked: _Asked) -> _Asked | None:
        """The first of what a statement is made of that is not here yet."""
        if asked.key in self._done:
            return None
        statement = asked.block[asked.name]
        for arg in statement.args:
            needed = _Asked(asked.block, asked.shape, arg, asked.place, arg)
            if needed.key not in self._done:
                return needed
        if statement.source is None:
            return None
        definition, where = self._read(asked, statement.source)
        if definition is None:
            return None
        element = _Asked(definition.statements, definition.shape, definition.value, where, definition.result.name)
        return None if element.key in self._done else element

    def _copy(self, asked: _Asked) -> str:
        """The statement here, once all that it is made of is."""
        statement, args = asked.block[asked.name], self._args(asked)
        if statement.source is not None:
            return self._load(asked, statement, statement.source)
        if statement.opcode == "position":
            return self._position(str(statement.attribute("axis")), asked.shape, asked.place)
        if ir.OPCODES[statement.opcode].kind == "draw" and not args:
            args = self._draw_position(asked.shape, asked.place)
        return self.builder.add(replace(statement, name=asked.wish, args=args))

    def _args(self, asked: _Asked) -> tuple[str, ...]:
        args = asked.block[asked.name].args
        return tuple(self._done[id(asked.block), arg, asked.place] for arg in args)

    # --- loads -------------------------------------------------------------------------------------------------------

    def _read(self, asked: _Asked, source: ir.Value) -> tuple[Definition | None, Place]:
        """Where a load reads its source, and the definition that is computed there, or None: it is in memory."""
        if asked.block[asked.name].opcode == "load_at":
            where = self._at(self._args(asked)[0], source)
        else:
            kind = moved(source, asked.shape, asked.place.kind)
            where = asked.place if kind == asked.place.kind else Place(kind)
        inlined = source.name in self.definitions and self.inlines(source, where.kind)
        return (self.definitions[source.name] if inlined else None), where

    def _load(self, asked: _Asked, load: ir.Statement, source: ir.Value) -> str:
        definition, where = self._read(asked, source)
        if definition is not None:
            name = self.value(definition, where)
            return self.builder.cast(self._guarded(source, where, name), load.dtype)
        opcode = "load_at" if where.kind == "at" else "load"
        indices = (where.index,) if where.kind == "at" else ()
        return self.builder.make(asked.wish, load.dtype, opcode, *indices, source=source)

    def _at(self, index: str, source: ir.Value) -> Place:
        """The place of an index; the own position where the index says just that."""
        index = self._unsigned(index)
        statement = self.builder.statements[index]
        axis = "flat" if len(source.shape) == 1 else "column"
        own = statement.opcode == "position" and statement.attribute("axis") == axis
        return OWN if own and source.shape == self.shape else Place("at", index)

    def _unsigned(self, index: str) -> str:
        """A negative index lies beyond every array."""
        dtype = self.builder.statements[index].dtype
        if dtype.kind != "int":
            return self.builder.cast(index, U32)
        negative = self.builder.make("negative", BOOL, "lt", index, self._constant(0, dtype))
        return self.builder.make(
            index, U32, "select", negative, self._constant(_BEYOND, U32), self.builder.cast(index, U32)
        )

    def _guarded(self, source: ir.Value, place: Place, name: str) -> str:
        """The element where the array has one, else 0."""
        if self._in_range(source, place):
            return name
        position = place.index if place.kind == "at" else self._position("flat", self.shape, OWN)
        inside = self.builder.make("inside", BOOL, "lt", position, self._length(source))
        dtype = self.builder.statements[name].dtype
        return self.builder.make(name, dtype, "select", inside, name, self._constant(0, dtype))

    def _in_range(self, source: ir.Value, place: Place) -> bool:
        if place.kind != "at":
            return source.count is None or source.count == self.count
        index = self.builder.statements[place.index]
        extent = source.shape[-1]
        match index.opcode:
            case "position":
                spanned = {"flat": self.shape, "row": self.shape[:1], "column": self.shape[-1:]}
                return spanned[str(index.attribute("axis"))] == (extent,) and source.count in (None, self.count)
            case "choose" | "sample_index":
                return source.count is None and index.attribute("extent") == extent
            case "load" if index.source is not None:
                return source.count is None and self.below.get(index.source.name) == extent
        return False

    def _length(self, source: ir.Value) -> str:
        if source.count is not None:
            return self.builder.make(source.count, U32, "load", source=ir.Value(name=source.count, dtype=U32))
        return self.builder.make("extent", U32, "size", value=source.shape[-1])

    # --- positions ---------------------------------------------------------------------------------------------------

    def _position(self, axis: str, shape: Shape, place: Place) -> str:
        """The position along an axis of a space of the given shape, evaluated at `place`."""
        match place.kind:
            case "scalar":
                return self._constant(0, U32)
            case "row":
                return self.builder.make("row", U32, "position", axis="row")
            case "at" if len(shape) == 1 or axis == "column":
                return place.index
            case "at" if axis == "flat":
                row = self.builder.make("row", U32, "position", axis="row")
                columns = self.builder.make("columns", U32, "size", value=shape[-1])
                start = self.builder.make("start", U32, "mul", row, columns)
                return self.builder.make("flat", U32, "add", start, place.index)
        return self.builder.make(axis, U32, "position", axis=axis)

    def _draw_position(self, shape: Shape, place: Place) -> tuple[str, ...]:
        """The argument that makes a draw of another space happen at its own position there."""
        if place.kind == "own" or (place.kind == "scalar" and not self.shape):
            return ()
        return (self._position("flat", shape, place),)

    def _constant(self, value: int, dtype: DType) -> str:
        scalar: ir.Scalar = {"float": float(value), "bool": bool(value)}.get(dtype.kind, value)
        return self.builder.make("c", dtype, "const", value=scalar)
