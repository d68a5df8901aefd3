"""What the lowering of one function knows: names in scope, operations so far, counts, sizes, stream ordinals."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Union

from compll.codegen import ir
from compll.diagnostics import CompllError, InternalError
from compll.dsl import ast
from compll.dsl.types import ArrayType, Bounded, Dimension, ElementType, RecordType, SizeType, SymbolicUint, Type
from compll.dtypes import MAX_PACKED_BITS, DType, uint
from compll.sizes import Num, Size, Var, evaluate, substitute

#: What a name can stand for: an array or scalar value, the fields of a record, or a statement of the current body.
Binding = Union[ir.Value, Mapping[str, ir.Value], str]
Scope = Mapping[str, Binding]

FIRST_INITIAL_STREAM = 128


@dataclass
class Sizes:
    """The named sizes of a program; equal expressions are always spelled alike."""

    fixed: dict[str, Size]  # parameters that are folded in
    named: list[tuple[str, Size]] = field(default_factory=list)
    _full: dict[str, Size] = field(default_factory=dict)  # name -> expression without named sizes
    _spelling: dict[Size, Size] = field(default_factory=dict)  # full expression -> its first spelling

    def define(self, name: str, value: Size) -> None:
        """Add `size name = value;`."""
        value = substitute(value, self.fixed)
        full = substitute(value, self._full)
        self.named.append((name, value))
        self._full[name] = full
        if not isinstance(full, Num):
            self._spelling.setdefault(full, Var(name))

    def resolve(self, size: Size) -> Size:
        """The size with folded parameters, in its one spelling."""
        size = substitute(size, self.fixed)
        return self._spelling.setdefault(substitute(size, self._full), size)


@dataclass
class Names:
    """Unique SSA names that keep the words of the program."""

    taken: set[str] = field(default_factory=set)

    def fresh(self, wish: str) -> str:
        name, suffix = wish, 1
        while name in self.taken:
            suffix += 1
            name = f"{wish}_{suffix}"
        self.taken.add(name)
        return name


#: Lowers an array expression to a value of the function, named after the last argument.
Materialise = Callable[["Context", ast.Expression, Scope, str], ir.Value]


@dataclass
class Context:
    """The lowering of one function. `operations` is the list being filled; loops swap it for their own."""

    materialise: Materialise
    functions: Mapping[str, ast.Function]
    constants: Mapping[str, float | int | bool]  # folded parameters
    parameters: Mapping[str, DType]  # parameters that stay arguments
    sizes: Sizes
    first_stream: int = 0
    names: Names = field(default_factory=Names)
    operations: list[ir.Operation] = field(default_factory=list)
    counts: dict[str, str] = field(default_factory=dict)  # Bounded.origin -> name of its count value
    origin: str = ""
    cuts: list[ir.Value] = field(default_factory=list)
    _ordinals: dict[bool, int] = field(default_factory=lambda: {True: 0, False: 0})

    def next_stream(self, shared: bool) -> int:
        """The ordinal of the next draw among the shared (private) draws, in source order."""
        stream = self.first_stream + self._ordinals[shared]
        self._ordinals[shared] += 1
        return stream

    def value(self, wish: str, dtype: DType, shape: tuple[Size, ...] = (), count: str | None = None) -> ir.Value:
        return ir.Value(name=self.names.fresh(wish), dtype=dtype, shape=shape, count=count)

    def emit(self, operation: ir.Operation) -> None:
        self.operations.append(operation)

    def dtype(self, element: ElementType) -> DType:
        """The concrete element type; a symbolic width has a value once parameters are folded in."""
        if isinstance(element, SymbolicUint):
            width = evaluate(substitute(element.width, self.sizes.fixed), {})
            if not width.is_integer() or not 1 <= width <= MAX_PACKED_BITS and width != 32:
                raise CompllError(f"`uint<{element.width}>` needs 1 to {MAX_PACKED_BITS} or 32 bits, got {width:g}")
            return uint(int(width))
        return element

    def shape(self, dimensions: Iterable[Dimension]) -> tuple[tuple[Size, ...], str | None]:
        """Extents (capacities) and the name of the count of a bounded array."""
        extents: list[Size] = []
        count = None
        for dimension in dimensions:
            if isinstance(dimension, Bounded):
                count = self.counts[dimension.origin]
                dimension = dimension.limit
            extents.append(self.sizes.resolve(dimension))
        return tuple(extents), count


def array_type(type_: Type | None) -> ArrayType:
    """The type of an expression that the checker has found to be an array or scalar."""
    if not isinstance(type_, ArrayType):
        raise InternalError(f"lowering needs an array type, got {type_}")
    return type_


def size_of(expression: ast.Expression) -> Size:
    """The symbolic value of an expression that the checker has found to be a size."""
    match expression.type:
        case SizeType(value):
            return value
        case _:
            raise InternalError(f"lowering needs a size, got {expression.type} at line {expression.span.line}")


def record_fields(type_: Type | None) -> tuple[tuple[str, ArrayType], ...]:
    if not isinstance(type_, RecordType):
        raise InternalError(f"lowering needs a record type, got {type_}")
    return type_.fields
