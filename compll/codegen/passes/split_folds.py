"""Folds of a whole matrix become folds of its rows, where sweeps over rows are there anyway.

Only for combinations that do not depend on order (docs/numerics.md, section 4), so not a bit changes. Without it the
flag that all of a matrix is finite would cost a row-wise selection a pass of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from compll.codegen import ir
from compll.codegen.rewrite import value_names
from compll.sizes import Size


def split_folds(program: ir.Program) -> ir.Program:
    """Split the order-free whole folds over the shapes that have per-row sinks."""
    functions = tuple(_function(function) for function in program.functions)
    return program if functions == program.functions else replace(program, functions=functions)


def _function(function: ir.Function) -> ir.Function:
    shapes = {sweep.shape for sweep in _sweeps(function.operations) if any(_per_row(s) for s in sweep.sinks)}
    names = value_names(function)
    operations = tuple(part for operation in function.operations for part in _split(operation, shapes, names))
    return replace(function, operations=operations)


def _sweeps(operations: tuple[ir.Operation, ...]) -> Iterator[ir.Sweep]:
    return (operation for operation in operations if isinstance(operation, ir.Sweep))


def _per_row(sink: ir.Sink) -> bool:
    return isinstance(sink, (ir.Fold, ir.Top, ir.Kth, ir.Scan)) and sink.per_row


def _is_order_free(sink: ir.Sink) -> bool:
    if not isinstance(sink, ir.Fold) or sink.per_row:
        return False
    kind, dtype = sink.combine.kind, sink.results[0].dtype
    return kind in ("and", "or", "min", "max") or (kind == "add" and dtype.kind in ("int", "uint"))


def _split(operation: ir.Operation, shapes: set[tuple[Size, ...]], names: set[str]) -> Iterator[ir.Operation]:
    if not isinstance(operation, ir.Sweep) or operation.shape not in shapes or len(operation.shape) != 2:
        yield operation
        return
    outer: list[ir.Sweep] = []
    sinks: list[ir.Sink] = []
    for sink in operation.sinks:
        if isinstance(sink, ir.Fold) and _is_order_free(sink):
            rows = _rows_of(sink, operation, names)
            sinks.append(replace(sink, results=(rows,), per_row=True))
            outer.append(_fold_rows(sink, rows, operation))
        else:
            sinks.append(sink)
    yield replace(operation, sinks=tuple(sinks))
    yield from outer


def _rows_of(fold: ir.Fold, sweep: ir.Sweep, names: set[str]) -> ir.Value:
    name = f"{fold.results[0].name}_rows"
    while name in names:
        name += "_"
    names.add(name)
    return replace(fold.results[0], name=name, shape=sweep.shape[:1])


def _fold_rows(fold: ir.Fold, rows: ir.Value, sweep: ir.Sweep) -> ir.Sweep:
    load = ir.Statement(name="row", dtype=rows.dtype, opcode="load", source=rows)
    return ir.Sweep(shape=rows.shape, body=(load,), sinks=(replace(fold, value="row"),), origin=sweep.origin)
