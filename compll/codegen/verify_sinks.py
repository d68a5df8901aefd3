"""What a legal sink is: the space it needs, the types of what it consumes and defines."""

from __future__ import annotations

from typing import assert_never

from compll.codegen import ir
from compll.codegen.verify_body import Dtypes, verify_body
from compll.codegen.verify_scope import Scope
from compll.dtypes import BOOL, F64, I32, U32, DType
from compll.sizes import Size

_SCANS = ("add", "min", "max", "and", "or", "custom")


def verify_sink(sink: ir.Sink, sweep: ir.Sweep, scope: Scope, dtypes: Dtypes) -> None:
    """Check a sink against its sweep; its results are not yet defined, so that no sink reads those of another."""
    for value in ir.sink_results(sink):
        scope.check_sizes(value.name, value.shape)
    match sink:
        case ir.Write():
            scope.expect(sink.result, _dtype(sink.result, sink.value, scope, dtypes), sweep.shape, sweep.count)
        case ir.Fold():
            _fold(sink, sweep, scope, dtypes)
        case ir.Scan():
            dtype = _dtype(sink.result, sink.value, scope, dtypes)
            _combine(sink.combine, dtype, sink.result, scope)
            scans = sink.combine.kind in _SCANS
            scope.require(scans, sink.result.name, f"`{sink.combine.kind}` does not scan")
            _rows(sink.per_row, sweep, sink.result, scope)
            scope.expect(sink.result, dtype, sweep.shape, sweep.count)
        case ir.Keep():
            _keep(sink, sweep, scope, dtypes)
        case ir.Top():
            _top(sink, sweep, scope, dtypes)
        case ir.Kth():
            dtype = _key(sink.key, sink.result, scope, dtypes)
            scope.check_sizes(sink.result.name, (sink.k,))
            scope.expect(sink.result, dtype, _rows(sink.per_row, sweep, sink.result, scope))
        case ir.Put():
            _put(sink, sweep, scope, dtypes)
        case _:
            assert_never(sink)


def _dtype(value: ir.Value, name: str, scope: Scope, dtypes: Dtypes) -> DType:
    scope.require(name in dtypes, value.name, f"its sink consumes `{name}`, which the body does not define")
    return dtypes[name]


def _key(name: str, value: ir.Value, scope: Scope, dtypes: Dtypes) -> DType:
    dtype = _dtype(value, name, scope, dtypes)
    ordered = dtype.computes_as == dtype and dtype.kind != "bool"
    scope.require(ordered, value.name, f"a key is a number that computes as itself, got {dtype}")
    return dtype


def _rows(per_row: bool, sweep: ir.Sweep, value: ir.Value, scope: Scope) -> tuple[Size, ...]:
    """The shape of one result per row, or of one result."""
    if not per_row:
        return ()
    scope.require(len(sweep.shape) == 2, value.name, f"per row needs a space of two dimensions, got {len(sweep.shape)}")
    return sweep.shape[:1]


def _fold(sink: ir.Fold, sweep: ir.Sweep, scope: Scope, dtypes: Dtypes) -> None:
    kind = sink.combine.kind
    needed = 2 if kind == "moments" else 1
    scope.require(len(sink.results) == needed, sink.value, f"`{kind}` has {needed} results, got {len(sink.results)}")
    first = sink.results[0]
    dtype = _dtype(first, sink.value, scope, dtypes)
    _combine(sink.combine, dtype, first, scope)
    shape = _rows(sink.per_row, sweep, first, scope)
    for result in sink.results:
        scope.expect(result, F64 if kind == "moments" else U32 if kind in ("argmin", "argmax") else dtype, shape)


def _combine(combine: ir.Combine, dtype: DType, value: ir.Value, scope: Scope) -> None:
    computes = dtype.computes_as == dtype
    match combine.kind:
        case "add" | "min" | "max" | "argmin" | "argmax":
            fits = computes and dtype.kind != "bool"
        case "and" | "or":
            fits = dtype == BOOL
        case "moments":
            fits = dtype.kind == "float" and computes
        case "custom":
            fits = computes
            _custom(combine, dtype, value, scope)
        case _:
            assert_never(combine.kind)
    scope.require(fits, value.name, f"`{combine.kind}` does not combine {dtype}")


def _custom(combine: ir.Combine, dtype: DType, value: ir.Value, scope: Scope) -> None:
    named = combine.left and combine.right and combine.left != combine.right
    scope.require(bool(named), value.name, "a custom combine needs two different parameters")
    scope.require(combine.identity is not None, value.name, "a custom combine needs an identity")
    dtypes = verify_body(combine.body, scope, None, {combine.left: dtype, combine.right: dtype})
    found = dtypes.get(combine.result)
    scope.require(found == dtype, value.name, f"its combine needs to give {dtype}, got {found or 'nothing'}")


def _keep(sink: ir.Keep, sweep: ir.Sweep, scope: Scope, dtypes: Dtypes) -> None:
    name = sink.index.name
    scope.require(len(sweep.shape) == 1, name, f"a filter needs a space of one dimension, got {len(sweep.shape)}")
    found = _dtype(sink.index, sink.predicate, scope, dtypes)
    scope.require(found == BOOL, name, f"the predicate `{sink.predicate}` needs to be bool, got {found}")
    scope.check_sizes(name, (sink.limit,))
    scope.expect(sink.count, U32, ())
    scope.expect(sink.cut, U32, ())
    scope.expect(sink.index, U32, (sink.limit,), sink.count.name)
    for value, carried in sink.carried:
        scope.expect(value, _dtype(value, carried, scope, dtypes), (sink.limit,), sink.count.name)


def _top(sink: ir.Top, sweep: ir.Sweep, scope: Scope, dtypes: Dtypes) -> None:
    _key(sink.key, sink.index, scope, dtypes)
    scope.check_sizes(sink.index.name, (sink.k,))
    shape = (*_rows(sink.per_row, sweep, sink.index, scope), sink.k)
    scope.expect(sink.index, U32, shape)
    for value, carried in sink.carried:
        scope.expect(value, _dtype(value, carried, scope, dtypes), shape)


def _put(sink: ir.Put, sweep: ir.Sweep, scope: Scope, dtypes: Dtypes) -> None:
    result = sink.result
    index = _dtype(result, sink.index, scope, dtypes)
    scope.require(index in (U32, I32), result.name, f"the index `{sink.index}` needs to be u32 or i32, got {index}")
    rank = max(1, len(sweep.shape))
    scope.require(len(result.shape) == rank, result.name, f"needs {rank} dimensions, got {len(result.shape)}")
    extent = result.shape[-1:]
    scope.expect(result, _dtype(result, sink.value, scope, dtypes), (*sweep.shape[:-1], *extent))
    if sink.base is not None:
        scope.use(sink.base)
        scope.expect(result, sink.base.dtype, sink.base.shape, sink.base.count)
