"""A call of an array primitive with its arguments sorted out, and the sweeps that lowering makes of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from compll.codegen import ir
from compll.codegen.lower.context import Context, Scope, array_type, size_of
from compll.codegen.lower.scalars import Builder, constant_of
from compll.diagnostics import InternalError
from compll.dsl import ast
from compll.dsl.types import ArrayType, Dimension
from compll.dtypes import BOOL, U32, DType
from compll.sizes import Size


def write(builder: Builder, scalar: str, wish: str) -> ir.Value:
    """Emit the sweep that stores a statement of the body as an array (or scalar)."""
    dtype = builder.dtype_of(scalar)
    result = builder.context.value(wish, dtype, builder.shape, builder.count)
    sweep(builder, ir.Write(result=result, value=scalar))
    return result


def sweep(builder: Builder, *sinks: ir.Sink) -> None:
    context = builder.context
    context.emit(
        ir.Sweep(shape=builder.shape, count=builder.count, body=builder.body(), sinks=sinks, origin=context.origin)
    )


def dimensions(expression: ast.Expression) -> tuple[Dimension, ...]:
    """The shape of an array expression; that of a scalar for a size."""
    return expression.type.shape if isinstance(expression.type, ArrayType) else ()


@dataclass(frozen=True)
class PrimitiveCall:
    """A call with its arguments sorted out."""

    context: Context
    expression: ast.Call
    scope: Scope
    wish: str
    arguments: tuple[ast.Expression, ...]
    named: Mapping[str, ast.Expression]

    @classmethod
    def of(cls, context: Context, call: ast.Call, scope: Scope, wish: str) -> PrimitiveCall:
        positional = tuple(a.value for a in call.arguments if a.name is None)
        named = {a.name: a.value for a in call.arguments if a.name is not None}
        return cls(context, call, scope, wish, positional, named)

    @property
    def name(self) -> str:
        return self.expression.function

    @property
    def dtype(self) -> DType:
        return self.context.dtype(array_type(self.expression.type).element)

    def argument(self, position: int, name: str) -> ast.Expression | None:
        if position < len(self.arguments):
            return self.arguments[position]
        return self.named.get(name)

    def size(self, position: int, name: str) -> Size:
        expression = self.argument(position, name)
        if expression is None:
            raise InternalError(f"`{self.name}` without `{name}`")
        return self.context.sizes.resolve(size_of(expression))

    def flag(self, position: int, name: str) -> bool:
        return bool(constant_of(self.argument(position, name), False))

    def over(self, position: int = 0) -> tuple[Builder, str]:
        """A builder over the space of an array argument, and the statement that holds its element."""
        expression = self.arguments[position]
        shape, count = self.context.shape(dimensions(expression))
        builder = Builder(self.context, shape, count)
        scalar = builder.scalar(expression, self.scope)
        return builder, builder.cast(scalar, builder.dtype_of(scalar).computes_as)

    @property
    def per_row(self) -> bool:
        """Whether a reduction keeps the rows: `axis = 1`."""
        return "axis" in self.named

    def operand(self, position: int) -> ir.Value:
        """An array argument as a value that operations on whole arrays take."""
        return self.computing(self.arguments[position])

    def computing(self, expression: ast.Expression) -> ir.Value:
        """An expression as a value of a type that computes as itself; flags are 0 and 1."""
        value = self.context.materialise(self.context, expression, self.scope, "t")
        return cast_to(self.context, value, U32 if value.dtype == BOOL else value.dtype.computes_as, "t")


def converted(call: PrimitiveCall, value: ir.Value) -> ir.Value:
    """The value in the dtype that the checker gave the call."""
    return cast_to(call.context, value, call.dtype, call.wish)


def cast_to(context: Context, value: ir.Value, dtype: DType, wish: str) -> ir.Value:
    """The value in a dtype, which it may have already."""
    if value.dtype == dtype:
        return value
    builder = Builder(context, value.shape, value.count)
    return write(builder, builder.cast(builder.load(value), dtype), wish)
