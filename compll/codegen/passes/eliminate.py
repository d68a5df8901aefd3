"""Dead results go: sinks, carried values and whole operations that no output depends on.

A dead draw goes, too; the streams of the others do not change, since each names its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from compll.codegen import ir
from compll.codegen.uses import block_reads, reads, sink_arguments


def eliminate_dead(program: ir.Program) -> ir.Program:
    """Keep what the outputs of each function need."""
    functions = tuple(
        replace(f, operations=_block(f.operations, (port.value.name for port in f.outputs))) for f in program.functions
    )
    return program if functions == program.functions else replace(program, functions=functions)


def _block(operations: tuple[ir.Operation, ...], needed: Iterable[str]) -> tuple[ir.Operation, ...]:
    live = set(needed)
    kept: list[ir.Operation] = []
    for operation in reversed(operations):
        pruned = _pruned(operation, live)
        if pruned is not None:
            live.update(value.name for value in reads(pruned))
            kept.append(pruned)
    return tuple(reversed(kept))


def _pruned(operation: ir.Operation, live: set[str]) -> ir.Operation | None:
    if not any(value.name in live for value in ir.results(operation)):
        return None
    match operation:
        case ir.Sweep():
            return _sweep(operation, live)
        case ir.Loop():
            return _loop(operation, live)
    return operation


def _sweep(sweep: ir.Sweep, live: set[str]) -> ir.Sweep:
    alive = (sink for sink in sweep.sinks if any(value.name in live for value in ir.sink_results(sink)))
    sinks = tuple(_carrying(sink, live) for sink in alive)
    needed = {argument for sink in sinks for argument in sink_arguments(sink)}
    body: list[ir.Statement] = []
    for statement in reversed(sweep.body):
        if statement.name in needed:
            needed.update(statement.args)
            body.append(statement)
    return replace(sweep, body=tuple(reversed(body)), sinks=sinks)


def _carrying(sink: ir.Sink, live: set[str]) -> ir.Sink:
    """A selection with the carried results that are read."""
    if isinstance(sink, (ir.Keep, ir.Top)):
        return replace(sink, carried=tuple(pair for pair in sink.carried if pair[0].name in live))
    return sink


def _loop(loop: ir.Loop, live: set[str]) -> ir.Loop:
    inside = {value.name for value in block_reads((*loop.head, *loop.body))} | {loop.condition.name}
    inside.update(carried.yielded.name for carried in loop.carried)
    kept = tuple(c for c in loop.carried if c.result.name in live or c.parameter.name in inside)
    body = _block(loop.body, (carried.yielded.name for carried in kept))
    head = _block(loop.head, (loop.condition.name, *(v.name for v in block_reads(body)), *_ends(kept)))
    return replace(loop, carried=kept, head=head, body=body)


def _ends(carried: tuple[ir.Carried, ...]) -> tuple[str, ...]:
    return tuple(c.yielded.name for c in carried)
