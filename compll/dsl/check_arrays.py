"""The rules of `map`, `scatter`, `len`, arrays made from nothing, matrices and the collective."""

from __future__ import annotations

from compll.dsl import ast
from compll.dsl.bound import Bound, Rule, array_operand, dimension_operands, size_operand
from compll.dsl.check_functions import function_value
from compll.dsl.check_operators import broadcast, described, is_float, is_integer
from compll.dsl.check_sizes import value_of
from compll.dsl.context import Context
from compll.dsl.types import ArrayType, Bounded, Indices, Poison, SizeType, Type
from compll.dtypes import F32, U32


def _map(context: Context, bound: Bound) -> ast.Expression:
    arrays = [context.value(context, array) for array in bound.given["arrays"]]
    function = bound.operand("function")
    if not arrays:
        return context.wrong(bound.call, "E0105", "`map` needs at least one array")
    for array in arrays:
        if not isinstance(array.type, ArrayType | Poison):
            context.report("E0106", f"`map` needs arrays, got {described(array.type)}", array.span)
    types = [array.type for array in arrays if isinstance(array.type, ArrayType)]
    if len(types) != len(arrays):
        return bound.finish([function, *arrays], type_=Poison())
    shape = broadcast(context, arrays, bound.call)
    typed, result = function_value(context, function, [t.element for t in types], "`map`")
    type_: Type = ArrayType(result, shape) if result is not None and shape is not None else Poison()
    return bound.finish([typed, *arrays], type_=type_)


def _scatter(context: Context, bound: Bound) -> ast.Expression:
    extent = size_operand(context, bound, "extent")
    index, where = array_operand(context, bound, "index", accepts=is_integer, needs="indices")
    value = context.value(context, bound.operand("value"))
    parts = [extent, index, value]
    length = value_of(extent)
    if where is None or length is None or isinstance(value.type, Poison):
        return bound.finish(parts, type_=Poison())
    if not isinstance(value.type, ArrayType):
        message = f"`scatter` needs values, got {described(value.type)}"
        return bound.finish(parts, type_=context.report("E0106", message, value.span))
    if value.type.shape and not context.same_shape(value.type.shape, where.shape):
        message = f"`scatter` needs a value for each index: the index is {where}, the value {value.type}"
        return bound.finish(parts, type_=context.report("E0110", message, bound.call.span))
    return bound.finish(parts, type_=ArrayType(value.type.element, (*where.shape[:-1], length)))


def _iota(context: Context, bound: Bound) -> ast.Expression:
    n = size_operand(context, bound, "n")
    length = value_of(n)
    type_: Type = Poison() if length is None else ArrayType(U32, (length,), Indices(length, True))
    return bound.finish([n], type_=type_)


def _fill(context: Context, bound: Bound) -> ast.Expression:
    sizes, shape = dimension_operands(context, bound)
    value = context.value(context, bound.operand("value"), bound.expected)
    options = {"value": value}
    if isinstance(value.type, Poison) or shape is None:
        return bound.finish(sizes, options, type_=Poison())
    if not isinstance(value.type, ArrayType) or value.type.shape:
        message = f"`fill` needs one value, got {described(value.type)}"
        return bound.finish(sizes, options, type_=context.report("E0106", message, value.span))
    return bound.finish(sizes, options, type_=ArrayType(value.type.element, shape))


def _length(context: Context, bound: Bound) -> ast.Expression:
    typed, array = array_operand(context, bound, "x")
    if array is None:
        return bound.finish([typed], type_=Poison())
    last = array.shape[-1]
    return bound.finish([typed], type_=ArrayType(U32) if isinstance(last, Bounded) else SizeType(last))


# --- matrices --------------------------------------------------------------------------------------------------------


def _matrix(context: Context, bound: Bound, name: str) -> tuple[ast.Expression, ArrayType | None]:
    return array_operand(context, bound, name, accepts=is_float, needs="a matrix of f32", rank=2)


def _matmul(context: Context, bound: Bound) -> ast.Expression:
    (left, first), (right, second) = _matrix(context, bound, "a"), _matrix(context, bound, "b")
    if first is None or second is None:
        return bound.finish([left, right], type_=Poison())
    if not context.same_dimension(first.shape[1], second.shape[0]):
        message = f"`matmul` needs as many columns as rows: {first} times {second}"
        return bound.finish([left, right], type_=context.report("E0110", message, bound.call.span))
    return bound.finish([left, right], type_=ArrayType(F32, (first.shape[0], second.shape[1])))


def _transpose(context: Context, bound: Bound) -> ast.Expression:
    typed, array = array_operand(context, bound, "x", rank=2)
    type_: Type = ArrayType(array.element, array.shape[::-1]) if array is not None else Poison()
    return bound.finish([typed], type_=type_)


def _orthonormalize(context: Context, bound: Bound) -> ast.Expression:
    typed, array = _matrix(context, bound, "x")
    return bound.finish([typed], type_=ArrayType(F32, array.shape) if array is not None else Poison())


def _all_reduce_mean(context: Context, bound: Bound) -> ast.Expression:
    typed = context.value(context, bound.operand("x"))
    if isinstance(typed.type, Poison):
        return bound.finish([typed], type_=Poison())
    if not isinstance(typed.type, ArrayType) or typed.type.element != F32:
        message = f"`all_reduce_mean` needs f32, got {described(typed.type)}"
        return bound.finish([typed], type_=context.report("E0106", message, typed.span))
    if any(isinstance(dimension, Bounded) for dimension in typed.type.shape):
        message = f"`all_reduce_mean` needs an array of equal length on every rank, got {typed.type}"
        return bound.finish([typed], type_=context.report("E0106", message, typed.span))
    return bound.finish([typed], type_=ArrayType(F32, typed.type.shape))


ARRAY_RULES: dict[str, Rule] = {
    "map": _map,
    "scatter": _scatter,
    "iota": _iota,
    "fill": _fill,
    "len": _length,
    "matmul": _matmul,
    "transpose": _transpose,
    "orthonormalize": _orthonormalize,
    "all_reduce_mean": _all_reduce_mean,
}
