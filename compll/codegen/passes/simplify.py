"""Scalar bodies made as short as they are: constants folded, equal statements shared, dead ones gone."""

from __future__ import annotations

from dataclasses import replace

from compll.codegen import ir
from compll.codegen.passes.definition import statements_of
from compll.codegen.passes.expand import OWN, Expander
from compll.codegen.uses import sink_arguments, with_arguments


def simplify_bodies(program: ir.Program) -> ir.Program:
    """Simplify the body of every sweep; algebra in `algebra.py`."""
    functions = tuple(replace(f, operations=_block(f.operations)) for f in program.functions)
    return program if functions == program.functions else replace(program, functions=functions)


def _block(operations: tuple[ir.Operation, ...]) -> tuple[ir.Operation, ...]:
    return tuple(_operation(operation) for operation in operations)


def _operation(operation: ir.Operation) -> ir.Operation:
    match operation:
        case ir.Sweep():
            return _sweep(operation)
        case ir.Loop():
            return replace(operation, head=_block(operation.head), body=_block(operation.body))
    return operation


def _sweep(sweep: ir.Sweep) -> ir.Sweep:
    expander = Expander(
        shape=sweep.shape, count=sweep.count, definitions={}, inlines=lambda value, kind: False, below={}
    )
    statements = statements_of(sweep.body)
    names = {s.name: expander.statement(statements, sweep.shape, s.name, OWN) for s in sweep.body}
    sinks = tuple(with_arguments(sink, tuple(names[a] for a in sink_arguments(sink))) for sink in sweep.sinks)
    needed = tuple(name for sink in sinks for name in sink_arguments(sink))
    return replace(sweep, body=expander.builder.body(needed), sinks=sinks)
