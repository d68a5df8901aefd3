"""The rules of primitives that work on whole arrays: reductions, selections, scans, scatter, matrices."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from compll.dsl import ast
from compll.dsl.bound import Bound, Rule
from compll.dsl.check_functions import function_value
from compll.dsl.check_operators import broadcast, described, is_bool, is_float, is_integer, is_number
from compll.dsl.check_sizes import size, value_of
from compll.dsl.check_types import computes_as
from compll.dsl.context import Context
from compll.dsl.types import ArrayType, Bounded, Dimension, ElementType, Indices, Poison, RecordType, SizeType, Type
from compll.dtypes import BOOL, F32, U32, DType
from compll.sizes import Size

# --- operands --------------------------------------------------------------------------------------------------------


def array_operand(
    context: Context,
    bound: Bound,
    name: str,
    *,
    accepts: Callable[[DType], bool] = lambda element: True,
    needs: str = "an array",
    rank: int | None = None,
    fixed: bool = False,
) -> tuple[ast.Expression, ArrayType | None]:
    """An operand that must be an array (of `rank` dimensions, of `fixed` length); the type is None after a report."""
    typed = context.value(context, bound.operand(name))
    type_ = typed.type
    if isinstance(type_, Poison):
        return typed, None
    what = f"`{bound.call.function}`"
    if not isinstance(type_, ArrayType) or not type_.shape or not accepts(computes_as(type_.element)):
        return context.wrong(typed, "E0106", f"{what} needs {needs}, got {described(type_)}"), None
    if rank is not None and len(type_.shape) != rank:
        kind = "a matrix" if rank == 2 else "a one-dimensional array"
        return context.wrong(typed, "E0106", f"{what} needs {kind}, got {type_}"), None
    if fixed and isinstance(type_.shape[-1], Bounded):
        message = f"{what} needs an array of known length, got {type_}"
        return context.wrong(typed, "E0106", message), None
    return typed, type_


def size_operand(context: Context, bound: Bound, name: str) -> ast.Expression:
    return size(context, bound.operand(name))


def flag_option(context: Context, bound: Bound, name: str) -> dict[str, ast.Expression]:
    """An option that must be `true` or `false` as a word."""
    option = bound.option(name)
    if option is None:
        return {}
    if not isinstance(option, ast.Boolean):
        context.report("E0106", f"`{name}` needs `true` or `false`, got `{option.span.text}`", option.span)
        return {}
    return {name: context.value(context, option)}


# --- reductions ------------------------------------------------------------------------------------------------------


def _reduction(accepts: Callable[[DType], bool], needs: str, result: DType | None = None) -> Rule:
    def rule(context: Context, bound: Bound) -> ast.Expression:
        typed, array = array_operand(context, bound, "x", accepts=accepts, needs=needs)
        options, shape = _axis(context, bound, array)
        if array is None or shape is None:
            return bound.finish([typed], options, type_=Poison())
        indices = None
        if bound.call.function in ("argmax", "argmin") and (shape or len(array.shape) == 1):
            indices = Indices(_capacity(array.shape[-1]), False)
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


def _capacity(dimension: Dimension) -> Size:
    return dimension.limit if isinstance(dimension, Bounded) else dimension


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


# --- selection -------------------------------------------------------------------------------------------------------


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
    index = ArrayType(U32, shape, Indices(_capacity(array.shape[-1]), True))
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
    index = ArrayType(U32, (length,), Indices(_capacity(array.shape[-1]), True))
    record = RecordType((("index", index), ("value", ArrayType(array.element, (length,)))))
    return bound.finish([typed, function], options, type_=record)


def _body(function: ast.Expression) -> ast.Expression:
    return function.body if isinstance(function, ast.Lambda) else function


# --- map, scatter, generators ----------------------------------------------------------------------------------------


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


def dimension_operands(context: Context, bound: Bound) -> tuple[list[ast.Expression], tuple[Dimension, ...] | None]:
    """The dimensions of a generated array; those of the state where an initial value leaves them out."""
    sizes = [size(context, e) for e in bound.given["dimensions"]]
    if not sizes and context.initial_shape is not None:
        return [], context.initial_shape
    if not 1 <= len(sizes) <= 2:
        message = f"`{bound.call.function}` needs one or two dimensions, got {len(sizes)}"
        context.report("E0105", message, bound.call.span)
        return sizes, None
    values = [value for e in sizes if (value := value_of(e)) is not None]
    return sizes, tuple(values) if len(values) == len(sizes) else None


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
    **dict.fromkeys(("sum", "min", "max"), _reduction(is_number, "an array of numbers")),
    **dict.fromkeys(("mean", "std", "norm1", "norm2"), _reduction(is_float, "an array of f32", F32)),
    **dict.fromkeys(("argmax", "argmin"), _reduction(is_number, "an array of numbers", U32)),
    **dict.fromkeys(("any", "all"), _reduction(is_bool, "an array of bool", BOOL)),
    "count": _reduction(is_bool, "an array of bool", U32),
    "reduce": _reduce,
    "scan": _scan,
    "cumsum": _cumsum,
    "sort": _sort,
    "topk": _topk,
    "kth_largest": _kth_largest,
    "filter": _filter,
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
