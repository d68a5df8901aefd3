"""Reductions and scans -> folds and the scalar sweeps that finish them."""

from __future__ import annotations

from collections.abc import Callable

from compll.codegen import ir
from compll.codegen.lower.calls import PrimitiveCall, converted, sweep, write
from compll.codegen.lower.scalars import Builder, constant_of
from compll.diagnostics import UnsupportedError
from compll.dtypes import BOOL, F32, F64, U32, DType


def _fold(call: PrimitiveCall, builder: Builder, kind: ir.CombineKind, scalar: str, wish: str) -> tuple[ir.Value, ...]:
    """Emit a reduction; (mean, m2) for moments, else one value."""
    context = call.context
    shape = builder.shape[:1] if call.per_row else ()
    dtype = builder.dtype_of(scalar)
    if kind == "moments":
        results = tuple(context.value(f"{wish}_{part}", F64, shape) for part in ("mean", "m2"))
    else:
        results = (context.value(wish, U32 if kind in ("argmin", "argmax") else dtype, shape),)
    combine = ir.Combine(kind=kind)
    sweep(builder, ir.Fold(results=results, combine=combine, value=scalar, per_row=call.per_row))
    return results


def simple_fold(kind: ir.CombineKind) -> Callable[[PrimitiveCall], ir.Value]:
    def handler(call: PrimitiveCall) -> ir.Value:
        builder, scalar = call.over()
        return converted(call, _fold(call, builder, kind, scalar, call.wish)[0])

    return handler


def _length(call: PrimitiveCall, builder: Builder, over: Builder, dtype: DType) -> str:
    """How many elements a reduction over the space `over` combines, as a statement of `builder`."""
    if over.count is not None:
        return builder.cast(builder.load(ir.Value(name=over.count, dtype=U32)), dtype)
    extents = over.shape[1:] if call.per_row else over.shape
    length = builder.size(extents[0], dtype) if extents else builder.constant(1, dtype)
    for extent in extents[1:]:
        length = builder.add("length", dtype, "mul", length, builder.size(extent, dtype))
    return length


def _finish(call: PrimitiveCall, results: tuple[ir.Value, ...]) -> Builder:
    return Builder(call.context, results[0].shape, None)


def mean(call: PrimitiveCall) -> ir.Value:
    over, scalar = call.over()
    (total,) = results = _fold(call, over, "add", scalar, f"{call.wish}_sum")
    builder = _finish(call, results)
    length = _length(call, builder, over, F32)
    return write(builder, _guarded_division(builder, builder.load(total), length, F32), call.wish)


def _guarded_division(builder: Builder, total: str, length: str, dtype: DType) -> str:
    """total / length, and 0 for an empty space."""
    zero = builder.constant(0.0, dtype)
    some = builder.add("some", BOOL, "gt", length, zero)
    return builder.add("mean", dtype, "select", some, builder.add("mean", dtype, "div", total, length), zero)


def std(call: PrimitiveCall) -> ir.Value:
    over, scalar = call.over()
    results = _fold(call, over, "moments", scalar, call.wish)
    builder = _finish(call, results)
    variance = _guarded_division(builder, builder.load(results[1]), _length(call, builder, over, F64), F64)
    return write(builder, builder.cast(builder.add("std", F64, "sqrt", variance), F32), call.wish)


def norm1(call: PrimitiveCall) -> ir.Value:
    builder, scalar = call.over()
    return _fold(call, builder, "add", builder.add("magnitude", F32, "abs", scalar), call.wish)[0]


def norm2(call: PrimitiveCall) -> ir.Value:
    over, scalar = call.over()
    wide = over.cast(scalar, F64)
    (total,) = results = _fold(call, over, "add", over.add("square", F64, "mul", wide, wide), f"{call.wish}_squares")
    builder = _finish(call, results)
    return write(builder, builder.cast(builder.add("root", F64, "sqrt", builder.load(total)), F32), call.wish)


def count(call: PrimitiveCall) -> ir.Value:
    builder, scalar = call.over()
    return converted(call, _fold(call, builder, "add", builder.cast(scalar, U32), call.wish)[0])


def reduce(call: PrimitiveCall) -> ir.Value:
    builder, scalar = call.over()
    scalar = builder.cast(scalar, call.dtype)
    shape = builder.shape[:1] if call.per_row else ()
    result = call.context.value(call.wish, call.dtype, shape)
    combine = _custom(call, call.dtype)
    sweep(builder, ir.Fold(results=(result,), combine=combine, value=scalar, per_row=call.per_row))
    return result


def _custom(call: PrimitiveCall, dtype: DType) -> ir.Combine:
    """`reduce(a, identity, |x, y| ...)`: the combine of a user's associative function."""
    inner = Builder(call.context, (), None)
    left, right = (inner.add(side, dtype, "const", value=0) for side in ("left", "right"))
    function = call.arguments[2]
    result = inner.cast(inner.apply(function, [left, right], call.scope), dtype)
    body = tuple(s for s in inner.statements if s.name not in (left, right))
    if any(s.source is not None for s in body):
        line = function.span.line
        raise UnsupportedError(f"line {line}: the function of `{call.name}` may use parameters and sizes only")
    identity = constant_of(call.arguments[1], 0)
    return ir.Combine(kind="custom", identity=identity, left=left, right=right, body=body, result=result)


def scan(call: PrimitiveCall) -> ir.Value:
    builder, scalar = call.over()
    scalar = builder.cast(scalar, call.dtype)
    combine = ir.Combine(kind="add") if call.name == "cumsum" else _custom(call, call.dtype)
    result = call.context.value(call.wish, call.dtype, builder.shape, builder.count)
    exclusive = bool(constant_of(call.named.get("exclusive"), False))
    per_row = len(builder.shape) == 2
    sweep(builder, ir.Scan(result=result, combine=combine, value=scalar, exclusive=exclusive, per_row=per_row))
    return result
