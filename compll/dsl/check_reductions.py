"""The rules of reductions, scans and sorting: along all of an array or along its rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from compll.dsl import ast
from compll.dsl.bound import Bound, Rule, array_operand, capacity, flag_option
from compll.dsl.check_functions import function_value
from compll.dsl.check_operators import described, is_bool, is_float, is_number
from compll.dsl.check_types import computes_as
from compll.dsl.context import Context
from compll.dsl.types import ArrayType, Dimension, Indices, Poison, Type
from compll.dtypes import BOOL, F32, U32, DType


def _reduction(accepts: Callable[[DType], bool], needs: str, result: DType | None = None) -> Rule:
    def rule(context: Context, bound: Bound) -> ast.Expression:
        typed, array = array_operand(context, bound, "x", accepts=accepts, needs=needs)
        options, shape = _axis(context, bound, array)
        if array is None or shape is None:
            return bound.finish([typed], options, type_=Poison())
        indices = None
        if bound.call.function in ("argmax", "argmin") and (shape or len(array.shape) == 1):
            indices = Indices(capacity(array.shape[-1]), False)
        return bound.finish([typed], options, type_=ArrayType(result or computes_as(array.element), shape, indices))

    return rule


def _axis(
    context: Context, bound: Bound, array: ArrayType | None
) -> tuple[dict[str, ast.Expression], tuple[Dimension, ...] | None]:
    """The option, and the shape of the result: () without it, one value per row with it."""
    axis = bound.option("axis")
    if axis is None:
        return {}, ()
    if not (isinstance(axis, ast.Number) and axis.value == 1):
        context.report("E0106", f"`axis` needs 1, one result for each row, got `{axis.span.text}`", axis.span)
        return {}, None
    if array is not None and len(array.shape) != 2:
        context.report("E0106", f"`axis = 1` needs a matrix, got {array}", axis.span)
        return {}, None
    options = {"axis": context.value(context, axis)}
    return options, array.shape[:1] if array is not None else None


def _reduce(context: Context, bound: Bound) -> ast.Expression:
    typed, array = array_operand(context, bound, "x", needs="an array")
    options, shape = _axis(context, bound, array)
    operands, element = _combine(context, bound, array)
    type_: Type = ArrayType(element, shape) if element is not None and shape is not None else Poison()
    return bound.finish([typed, *operands], options, type_=type_)


def _scan(context: Context, bound: Bound) -> ast.Expression:
    typed, array = array_operand(context, bound, "x")
    operands, element = _combine(context, bound, array)
    options = flag_option(context, bound, "exclusive")
    type_: Type = ArrayType(element, array.shape) if array is not None and element is not None else Poison()
    return bound.finish([typed, *operands], options, type_=type_)


def _combine(
    context: Context, bound: Bound, array: ArrayType | None
) -> tuple[list[ast.Expression], DType | None]:
    """Identity and combining function of `reduce` and `scan`, over the computing type of the array."""
    if array is None:
        return [bound.operand("identity"), bound.operand("combine")], None
    element = computes_as(array.element)
    identity = context.value(context, bound.operand("identity"), element)
    function, result = function_value(context, bound.operand("combine"), [element, element], "`combine`")
    what = f"`{bound.call.function}`"
    if identity.type != ArrayType(element) and not isinstance(identity.type, Poison):
        message = f"the identity of {what} must be {element}, got {described(identity.type)}"
        context.report("E0106", message, identity.span)
        return [identity, function], None
    if result is not None and computes_as(result) != element:
        message = f"the function of {what} must give {element}, got {result}"
        context.report("E0106", message, function.span)
        return [identity, function], None
    return [identity, function], element if result is not None and isinstance(identity.type, ArrayType) else None


def _cumsum(context: Context, bound: Bound) -> ast.Expression:
    typed, array = array_operand(context, bound, "x", accepts=is_number, needs="numbers")
    type_: Type = ArrayType(computes_as(array.element), array.shape) if array is not None else Poison()
    return bound.finish([typed], flag_option(context, bound, "exclusive"), type_=type_)


def _sort(context: Context, bound: Bound) -> ast.Expression:
    typed, array = array_operand(context, bound, "x", accepts=is_number, needs="numbers", fixed=True)
    options = flag_option(context, bound, "descending")
    if array is None:
        return bound.finish([typed], options, type_=Poison())
    descending = any(isinstance(o, ast.Boolean) and o.value for o in options.values())
    indices = Indices(array.indices.below, not descending) if array.indices is not None else None
    return bound.finish([typed], options, type_=replace(array, indices=indices))


REDUCTION_RULES: dict[str, Rule] = {
    **dict.fromkeys(("sum", "min", "max"), _reduction(is_number, "an array of numbers")),
    **dict.fromkeys(("mean", "std", "norm1", "norm2"), _reduction(is_float, "an array of f32", F32)),
    **dict.fromkeys(("argmax", "argmin"), _reduction(is_number, "an array of numbers", U32)),
    **dict.fromkeys(("any", "all"), _reduction(is_bool, "an array of bool", BOOL)),
    "count": _reduction(is_bool, "an array of bool", U32),
    "reduce": _reduce,
    "scan": _scan,
    "cumsum": _cumsum,
    "sort": _sort,
}
