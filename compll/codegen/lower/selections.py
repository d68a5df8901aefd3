"""Selections, filters, scatters and sorts -> the sweeps and operations that do them."""

from __future__ import annotations

from collections.abc import Mapping

from compll.codegen import ir
from compll.codegen.lower.calls import PrimitiveCall, converted, dimensions, sweep
from compll.codegen.lower.context import Context, Scope, array_type, record_fields
from compll.codegen.lower.scalars import Builder
from compll.dsl import ast
from compll.dsl.types import Bounded
from compll.dtypes import U32

_ZEROS: Mapping[str, ir.Scalar] = {"float": 0.0, "bool": False}


def _key(call: PrimitiveCall, builder: Builder, scalar: str) -> str:
    by = call.argument(2, "by")
    return scalar if by is None else builder.apply(by, [scalar], call.scope)


def topk(call: PrimitiveCall) -> Mapping[str, ir.Value]:
    builder, scalar = call.over()
    per_row = len(builder.shape) == 2
    k = call.size(1, "k")
    shape = (*builder.shape[:-1], k)
    types = dict(record_fields(call.expression.type))
    index = call.context.value(f"{call.wish}_index", U32, shape)
    value_dtype = call.context.dtype(types["value"].element)
    value = call.context.value(f"{call.wish}_value", value_dtype, shape)
    key = _key(call, builder, scalar)
    carried = ((value, builder.cast(scalar, value_dtype)),)
    sweep(builder, ir.Top(index=index, carried=carried, key=key, k=k, per_row=per_row))
    return {"index": index, "value": value}


def kth_largest(call: PrimitiveCall) -> ir.Value:
    builder, scalar = call.over()
    per_row = len(builder.shape) == 2
    key = _key(call, builder, scalar)
    result = call.context.value(call.wish, builder.dtype_of(key), builder.shape[:-1])
    sweep(builder, ir.Kth(result=result, key=key, k=call.size(1, "k"), per_row=per_row))
    return result


def filter_(call: PrimitiveCall) -> Mapping[str, ir.Value]:
    builder, scalar = call.over()
    context = call.context
    types = dict(record_fields(call.expression.type))
    bounded = types["index"].shape[0]
    assert isinstance(bounded, Bounded)
    limit = context.sizes.resolve(bounded.limit)
    count = context.value(f"{call.wish}_count", U32)
    context.counts[bounded.origin] = count.name
    cut = context.value(f"{call.wish}_cut", U32)
    context.cuts.append(cut)
    index = context.value(f"{call.wish}_index", U32, (limit,), count.name)
    value_dtype = context.dtype(types["value"].element)
    value = context.value(f"{call.wish}_value", value_dtype, (limit,), count.name)
    tested = call.arguments[1]
    bound = [scalar]
    if isinstance(tested, ast.Lambda) and len(tested.parameters) == 2:
        bound.append(builder.add("i", U32, "position", axis="flat"))
    predicate = builder.apply(tested, bound, call.scope)
    carried = ((value, builder.cast(scalar, value_dtype)),)
    sweep(
        builder,
        ir.Keep(index=index, count=count, cut=cut, carried=carried, predicate=predicate, limit=limit),
    )
    return {"index": index, "value": value}


def scatter(call: PrimitiveCall) -> ir.Value:
    index = call.arguments[1]
    shape, count = call.context.shape(dimensions(index))
    builder = Builder(call.context, shape, count)
    at = builder.cast(builder.scalar(index, call.scope), U32)
    value = builder.cast(builder.scalar(call.arguments[2], call.scope), call.dtype)
    extents, _ = call.context.shape(array_type(call.expression.type).shape)
    result = call.context.value(call.wish, call.dtype, extents)
    sweep(builder, ir.Put(result=result, base=None, index=at, value=value))
    return result


def clear(context: Context, base: ir.Value, index: ast.Expression, scope: Scope) -> ir.Value:
    """`base` with zeros at the positions in `index`."""
    shape, count = context.shape(dimensions(index))
    builder = Builder(context, shape, count)
    at = builder.cast(builder.scalar(index, scope), U32)
    zero = builder.constant(_ZEROS.get(base.dtype.kind, 0), base.dtype)
    result = context.value(base.name, base.dtype, base.shape)
    sweep(builder, ir.Put(result=result, base=base, index=at, value=zero))
    return result


def sort(call: PrimitiveCall) -> ir.Value:
    source = call.operand(0)
    result = call.context.value(call.wish, source.dtype, source.shape, source.count)
    descending = call.flag(1, "descending")
    call.context.emit(ir.Sort(result=result, source=source, descending=descending, origin=call.context.origin))
    return converted(call, result)
