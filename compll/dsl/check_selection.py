"""The rules of selections: `topk`, `kth_largest`, `filter`."""

from __future__ import annotations

from compll.dsl import ast
from compll.dsl.bound import Bound, Rule, array_operand, capacity, size_operand
from compll.dsl.check_functions import function_value
from compll.dsl.check_operators import is_number
from compll.dsl.check_sizes import value_of
from compll.dsl.check_types import computes_as
from compll.dsl.context import Context
from compll.dsl.types import ArrayType, ElementType, Indices, Poison, RecordType
from compll.dtypes import BOOL, U32, DType


def _key(context: Context, bound: Bound, element: ElementType) -> tuple[dict[str, ast.Expression], DType | None]:
    """The option `by`, and the computing type of the key; None after a report."""
    by = bound.option("by")
    if by is None:
        key: ElementType | None = element
        options = {}
    else:
        function, key = function_value(context, by, [element], "`by`")
        options = {"by": function}
    if key is None:
        return options, None
    if not is_number(computes_as(key)):
        context.report("E0106", f"`by` must give a number to order by, got {key}", by.span if by else bound.call.span)
        return options, None
    return options, computes_as(key)


def _topk(context: Context, bound: Bound) -> ast.Expression:
    typed, array = array_operand(context, bound, "x")
    k = size_operand(context, bound, "k")
    if array is None:
        return bound.finish([typed, k], type_=Poison())
    options, key = _key(context, bound, array.element)
    count = value_of(k)
    if key is None or count is None:
        return bound.finish([typed, k], options, type_=Poison())
    shape = (*array.shape[:-1], count)
    index = ArrayType(U32, shape, Indices(capacity(array.shape[-1]), True))
    record = RecordType((("index", index), ("value", ArrayType(array.element, shape))))
    return bound.finish([typed, k], options, type_=record)


def _kth_largest(context: Context, bound: Bound) -> ast.Expression:
    typed, array = array_operand(context, bound, "x")
    k = size_operand(context, bound, "k")
    if array is None:
        return bound.finish([typed, k], type_=Poison())
    options, key = _key(context, bound, array.element)
    known = key is not None and value_of(k) is not None
    return bound.finish([typed, k], options, type_=ArrayType(key, array.shape[:-1]) if known and key else Poison())


def _filter(context: Context, bound: Bound) -> ast.Expression:
    typed, array = array_operand(context, bound, "x", rank=1)
    options = {"at_most": size_operand(context, bound, "at_most")}
    predicate = bound.operand("predicate")
    if array is None:
        return bound.finish([typed, predicate], options, type_=Poison())
    by_position = isinstance(predicate, ast.Lambda) and len(predicate.parameters) == 2
    elements = [array.element, U32] if by_position else [array.element]
    function, result = function_value(context, predicate, elements, "`filter`")
    limit = value_of(options["at_most"])
    if result is not None and result != BOOL:
        context.report("E0129", f"the predicate of `filter` must give bool, got {result}", _body(predicate).span)
    if result != BOOL or limit is None:
        return bound.finish([typed, function], options, type_=Poison())
    length = context.fresh_bound(limit)
    index = ArrayType(U32, (length,), Indices(capacity(array.shape[-1]), True))
    record = RecordType((("index", index), ("value", ArrayType(array.element, (length,)))))
    return bound.finish([typed, function], options, type_=record)


def _body(function: ast.Expression) -> ast.Expression:
    return function.body if isinstance(function, ast.Lambda) else function


SELECTION_RULES: dict[str, Rule] = {"topk": _topk, "kth_largest": _kth_largest, "filter": _filter}
