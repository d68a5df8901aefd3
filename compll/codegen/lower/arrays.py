"""Array expressions -> operations: one function for each primitive that is more than elementwise."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from compll.codegen import ir
from compll.codegen.lower.context import Binding, Context, Scope, array_type, record_fields, size_of
from compll.codegen.lower.scalars import Builder, constant_of
from compll.diagnostics import InternalError, UnsupportedError
from compll.dsl import ast
from compll.dsl.types import ArrayType, Bounded, RecordType
from compll.dtypes import BOOL, F32, F64, U32, DType
from compll.sizes import Size


def lower_array(context: Context, expression: ast.Expression, scope: Scope, wish: str) -> ir.Value:
    """The expression as a value of the function; an existing value is returned as it is."""
    match expression:
        case ast.Name(name=name) if isinstance(scope.get(name), ir.Value):
            value = scope[name]
            assert isinstance(value, ir.Value)
            return value
        case ast.Member(record=record, name=name):
            return lower_record(context, record, scope, wish)[name]
        case ast.Call(function=function) if function in context.functions and not _is_scalar_function(context, function):
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
        case ast.Call(function="topk"):
            return _topk(PrimitiveCall.of(context, expression, scope, wish))
        case ast.Call(function="filter"):
            return _filter(PrimitiveCall.of(context, expression, scope, wish))
    raise InternalError(f"line {expression.span.line}: no record")


def lower_binding(context: Context, expression: ast.Expression, scope: Scope, wish: str) -> Binding:
    """What a `let` binds its name to."""
    if isinstance(expression.type, RecordType):
        return lower_record(context, expression, scope, wish)
    return lower_array(context, expression, scope, wish)


def elementwise(context: Context, expression: ast.Expression, scope: Scope, wish: str) -> ir.Value:
    """One sweep whose body is the whole expression."""
    shape, count = context.shape(_dimensions(expression))
    builder = Builder(context, shape, count)
    scalar = builder.scalar(expression, scope)
    dtype = F32 if not isinstance(expression.type, ArrayType) else context.dtype(expression.type.element)
    return write(builder, builder.cast(scalar, dtype), wish)


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


def _dimensions(expression: ast.Expression) -> tuple[Size | Bounded, ...]:
    return expression.type.shape if isinstance(expression.type, ArrayType) else ()


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


# --- primitives ------------------------------------------------------------------------------------------------------


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
        shape, count = self.context.shape(_dimensions(expression))
        builder = Builder(self.context, shape, count)
        scalar = builder.scalar(expression, self.scope)
        return builder, builder.cast(scalar, builder.dtype_of(scalar).computes_as)

    @property
    def per_row(self) -> bool:
        """Whether a reduction keeps the rows: `axis = 1`."""
        return "axis" in self.named


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


def _converted(call: PrimitiveCall, value: ir.Value) -> ir.Value:
    """The value in the dtype that the checker gave the call."""
    if value.dtype == call.dtype:
        return value
    builder = Builder(call.context, value.shape, value.count)
    return write(builder, builder.cast(builder.load(value), call.dtype), call.wish)


def _simple_fold(kind: ir.CombineKind) -> Callable[[PrimitiveCall], ir.Value]:
    def handler(call: PrimitiveCall) -> ir.Value:
        builder, scalar = call.over()
        return _converted(call, _fold(call, builder, kind, scalar, call.wish)[0])

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


def _mean(call: PrimitiveCall) -> ir.Value:
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


def _std(call: PrimitiveCall) -> ir.Value:
    over, scalar = call.over()
    results = _fold(call, over, "moments", scalar, call.wish)
    builder = _finish(call, results)
    variance = _guarded_division(builder, builder.load(results[1]), _length(call, builder, over, F64), F64)
    return write(builder, builder.cast(builder.add("std", F64, "sqrt", variance), F32), call.wish)


def _norm1(call: PrimitiveCall) -> ir.Value:
    builder, scalar = call.over()
    return _fold(call, builder, "add", builder.add("magnitude", F32, "abs", scalar), call.wish)[0]


def _norm2(call: PrimitiveCall) -> ir.Value:
    over, scalar = call.over()
    wide = over.cast(scalar, F64)
    (total,) = results = _fold(call, over, "add", over.add("square", F64, "mul", wide, wide), f"{call.wish}_squares")
    builder = _finish(call, results)
    return write(builder, builder.cast(builder.add("root", F64, "sqrt", builder.load(total)), F32), call.wish)


def _count(call: PrimitiveCall) -> ir.Value:
    builder, scalar = call.over()
    return _converted(call, _fold(call, builder, "add", builder.cast(scalar, U32), call.wish)[0])


def _reduce(call: PrimitiveCall) -> ir.Value:
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
        raise UnsupportedError(f"line {function.span.line}: the function of `{call.name}` may use parameters and sizes only")
    identity = constant_of(call.arguments[1], 0)
    return ir.Combine(kind="custom", identity=identity, left=left, right=right, body=body, result=result)


def _scan(call: PrimitiveCall) -> ir.Value:
    builder, scalar = call.over()
    scalar = builder.cast(scalar, call.dtype)
    combine = ir.Combine(kind="add") if call.name == "cumsum" else _custom(call, call.dtype)
    result = call.context.value(call.wish, call.dtype, builder.shape, builder.count)
    exclusive = bool(constant_of(call.named.get("exclusive"), False))
    per_row = len(builder.shape) == 2
    sweep(builder, ir.Scan(result=result, combine=combine, value=scalar, exclusive=exclusive, per_row=per_row))
    return result


def _key(call: PrimitiveCall, builder: Builder, scalar: str) -> str:
    by = call.argument(2, "by")
    return scalar if by is None else builder.apply(by, [scalar], call.scope)


def _topk(call: PrimitiveCall) -> Mapping[str, ir.Value]:
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


def _kth_largest(call: PrimitiveCall) -> ir.Value:
    builder, scalar = call.over()
    per_row = len(builder.shape) == 2
    key = _key(call, builder, scalar)
    result = call.context.value(call.wish, builder.dtype_of(key), builder.shape[:-1])
    sweep(builder, ir.Kth(result=result, key=key, k=call.size(1, "k"), per_row=per_row))
    return result


def _filter(call: PrimitiveCall) -> Mapping[str, ir.Value]:
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


def _scatter(call: PrimitiveCall) -> ir.Value:
    index = call.arguments[1]
    shape, count = call.context.shape(_dimensions(index))
    builder = Builder(call.context, shape, count)
    at = builder.cast(builder.scalar(index, call.scope), U32)
    value = builder.cast(builder.scalar(call.arguments[2], call.scope), call.dtype)
    extents, _ = call.context.shape(array_type(call.expression.type).shape)
    result = call.context.value(call.wish, call.dtype, extents)
    sweep(builder, ir.Put(result=result, base=None, index=at, value=value))
    return result


def clear(context: Context, base: ir.Value, index: ast.Expression, scope: Scope) -> ir.Value:
    """`base` with zeros at the positions in `index`."""
    shape, count = context.shape(_dimensions(index))
    builder = Builder(context, shape, count)
    at = builder.cast(builder.scalar(index, scope), U32)
    zero = builder.constant(0.0 if base.dtype.kind == "float" else 0, base.dtype)
    result = context.value(base.name, base.dtype, base.shape)
    sweep(builder, ir.Put(result=result, base=base, index=at, value=zero))
    return result


def _operand(call: PrimitiveCall, position: int) -> ir.Value:
    return lower_array(call.context, call.arguments[position], call.scope, "t")


def _sort(call: PrimitiveCall) -> ir.Value:
    source = _operand(call, 0)
    result = call.context.value(call.wish, source.dtype, source.shape, source.count)
    descending = call.flag(1, "descending")
    call.context.emit(ir.Sort(result=result, source=source, descending=descending, origin=call.context.origin))
    return result


def _matmul(call: PrimitiveCall) -> ir.Value:
    operands = []
    for expression in call.arguments:
        transposed = isinstance(expression, ast.Call) and expression.function == "transpose"
        inner = expression.arguments[0].value if isinstance(expression, ast.Call) and transposed else expression
        operands.append((lower_array(call.context, inner, call.scope, "t"), transposed))
    (left, transpose_left), (right, transpose_right) = operands
    shape, _ = call.context.shape(array_type(call.expression.type).shape)
    result = call.context.value(call.wish, F32, shape)
    call.context.emit(
        ir.MatMul(
            result=result, left=left, right=right, transpose_left=transpose_left, transpose_right=transpose_right,
            origin=call.context.origin,
        )
    )  # fmt: skip
    return result


def _unary(operation: type[ir.Transpose] | type[ir.Orthonormalize] | type[ir.AllReduce]) -> Callable[[PrimitiveCall], ir.Value]:
    def handler(call: PrimitiveCall) -> ir.Value:
        source = _operand(call, 0)
        shape, count = call.context.shape(array_type(call.expression.type).shape)
        result = call.context.value(call.wish, source.dtype, shape, count)
        call.context.emit(operation(result=result, source=source, origin=call.context.origin))
        return result

    return handler


ARRAYS: dict[str, Callable[[PrimitiveCall], ir.Value]] = {
    "sum": _simple_fold("add"),
    "min": _simple_fold("min"),
    "max": _simple_fold("max"),
    "any": _simple_fold("or"),
    "all": _simple_fold("and"),
    "argmax": _simple_fold("argmax"),
    "argmin": _simple_fold("argmin"),
    "mean": _mean,
    "std": _std,
    "norm1": _norm1,
    "norm2": _norm2,
    "count": _count,
    "reduce": _reduce,
    "scan": _scan,
    "cumsum": _scan,
    "kth_largest": _kth_largest,
    "scatter": _scatter,
    "sort": _sort,
    "matmul": _matmul,
    "transpose": _unary(ir.Transpose),
    "orthonormalize": _unary(ir.Orthonormalize),
    "all_reduce_mean": _unary(ir.AllReduce),
}
