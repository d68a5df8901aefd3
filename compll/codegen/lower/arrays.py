"""Array expressions -> values of the function: dispatch to primitives, expansion of `fn`s, elementwise sweeps."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import Any

from compll.codegen import ir
from compll.codegen.lower import matrices, reductions, selections
from compll.codegen.lower.calls import PrimitiveCall, dimensions, write
from compll.codegen.lower.context import Binding, Context, Scope
from compll.codegen.lower.scalars import Builder
from compll.diagnostics import InternalError
from compll.dsl import ast
from compll.dsl.types import ArrayType, RecordType
from compll.dtypes import F32


def lower_array(context: Context, expression: ast.Expression, scope: Scope, wish: str) -> ir.Value:
    """The expression as a value of the function; an existing value is returned as it is."""
    match expression:
        case ast.Name(name=name) if isinstance(scope.get(name), ir.Value):
            value = scope[name]
            assert isinstance(value, ir.Value)
            return value
        case ast.Member(record=record, name=name):
            return lower_record(context, record, scope, wish)[name]
    expression, scope = with_filters_named(context, expression, scope)
    match expression:
        case ast.Call(function=name) if name in context.functions and not _is_scalar_function(context, name):
            return _expand(context, expression, scope, wish)
        case ast.Call():
            call = PrimitiveCall.of(context, expression, scope, wish)
            handler = ARRAYS.get(call.name)
            if handler is not None and not (call.name in ("min", "max") and len(call.arguments) != 1):
                return handler(call)
    return elementwise(context, expression, scope, wish)


def lower_record(context: Context, expression: ast.Expression, scope: Scope, wish: str) -> Mapping[str, ir.Value]:
    """The fields of an expression of record type."""
    match expression:
        case ast.Name(name=name):
            binding = scope[name]
            assert isinstance(binding, Mapping)
            return binding
    expression, scope = with_filters_named(context, expression, scope)
    match expression:
        case ast.Call(function="topk"):
            return selections.topk(PrimitiveCall.of(context, expression, scope, wish))
        case ast.Call(function="filter"):
            return selections.filter_(PrimitiveCall.of(context, expression, scope, wish))
    raise InternalError(f"line {expression.span.line}: no record")


def with_filters_named(context: Context, expression: ast.Expression, scope: Scope) -> tuple[ast.Expression, Scope]:
    """The expression with every `filter` inside it lowered before it and put in by name, since the length of what
    uses one is a count that has to be there first."""
    named: dict[str, Binding] = {}

    def visit(part: Any) -> Any:
        if isinstance(part, tuple):
            visited = tuple(map(visit, part))
            return part if all(map(operator.is_, visited, part)) else visited
        if isinstance(part, ast.Call) and part.function == "filter":
            name = f"filter at {part.span.start}"  # no name that a program can write
            named[name] = lower_record(context, part, scope, "kept")
            return ast.Name(span=part.span, name=name, type=part.type)
        return inside(part) if isinstance(part, ast.Node) else part

    def inside(node: Any) -> Any:
        parts = {field.name: getattr(node, field.name) for field in fields(node) if field.name not in ("span", "type")}
        changed = {name: visit(part) for name, part in parts.items()}
        return replace(node, **changed) if any(changed[name] is not part for name, part in parts.items()) else node

    result = inside(expression)
    return result, {**scope, **named}


def lower_binding(context: Context, expression: ast.Expression, scope: Scope, wish: str) -> Binding:
    """What a `let` binds its name to."""
    if isinstance(expression.type, RecordType):
        return lower_record(context, expression, scope, wish)
    return lower_array(context, expression, scope, wish)


def elementwise(context: Context, expression: ast.Expression, scope: Scope, wish: str) -> ir.Value:
    """One sweep whose body is the whole expression."""
    shape, count = context.shape(dimensions(expression))
    builder = Builder(context, shape, count)
    scalar = builder.scalar(expression, scope)
    dtype = F32 if not isinstance(expression.type, ArrayType) else context.dtype(expression.type.element)
    return write(builder, builder.cast(scalar, dtype), wish)


def _is_scalar_function(context: Context, name: str) -> bool:
    function = context.functions[name]
    return not function.result.shape and not any(p.type.shape for p in function.parameters)


def _expand(context: Context, call: ast.Call, scope: Scope, wish: str) -> ir.Value:
    """A `fn` on arrays: its body in place of the call."""
    function = context.functions[call.function]
    inner: dict[str, Binding] = {
        parameter.name: lower_array(context, argument.value, scope, parameter.name)
        for parameter, argument in zip(function.parameters, call.arguments)
    }
    for statement in function.body:
        match statement:
            case ast.Let(name=name, value=value):
                inner[name] = lower_binding(context, value, inner, name)
            case ast.Return(value=value):
                return lower_array(context, value, inner, wish)
            case _:
                raise InternalError(f"statement {type(statement).__name__} in fn `{function.name}`")
    raise InternalError(f"fn `{function.name}` has no return")


ARRAYS: dict[str, Callable[[PrimitiveCall], ir.Value]] = {
    "sum": reductions.simple_fold("add"),
    "min": reductions.simple_fold("min"),
    "max": reductions.simple_fold("max"),
    "any": reductions.simple_fold("or"),
    "all": reductions.simple_fold("and"),
    "argmax": reductions.simple_fold("argmax"),
    "argmin": reductions.simple_fold("argmin"),
    "mean": reductions.mean,
    "std": reductions.std,
    "norm1": reductions.norm1,
    "norm2": reductions.norm2,
    "count": reductions.count,
    "reduce": reductions.reduce,
    "scan": reductions.scan,
    "cumsum": reductions.scan,
    "kth_largest": selections.kth_largest,
    "scatter": selections.scatter,
    "sort": selections.sort,
    "matmul": matrices.matmul,
    "transpose": matrices.unary(ir.Transpose),
    "orthonormalize": matrices.unary(ir.Orthonormalize),
    "all_reduce_mean": matrices.unary(ir.AllReduce),
}
