"""What operations read and define: the one place that knows where values stand in each of them.

Order is always that of appearance, so that whatever is built on these answers is deterministic.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from compll.codegen import ir
from compll.dtypes import U32


def sink_arguments(sink: ir.Sink) -> tuple[str, ...]:
    """The statements of the body that a sink consumes."""
    match sink:
        case ir.Write() | ir.Fold() | ir.Scan():
            return (sink.value,)
        case ir.Kth():
            return (sink.key,)
        case ir.Keep():
            return (sink.predicate, *(name for _, name in sink.carried))
        case ir.Top():
            return (sink.key, *(name for _, name in sink.carried))
        case ir.Put():
            return (sink.index, sink.value)


def with_arguments(sink: ir.Sink, arguments: tuple[str, ...]) -> ir.Sink:
    """The sink on other statements, in the order of `sink_arguments`."""
    first, *rest = arguments
    match sink:
        case ir.Write() | ir.Fold() | ir.Scan():
            return replace(sink, value=first)
        case ir.Kth():
            return replace(sink, key=first)
        case ir.Keep():
            return replace(sink, predicate=first, carried=tuple((v, n) for (v, _), n in zip(sink.carried, rest)))
        case ir.Top():
            return replace(sink, key=first, carried=tuple((v, n) for (v, _), n in zip(sink.carried, rest)))
        case ir.Put():
            return replace(sink, index=first, value=rest[0])


def with_results(sink: ir.Sink, results: tuple[ir.Value, ...]) -> ir.Sink:
    """The sink defining other values, in the order of `ir.sink_results`."""
    first, *rest = results
    match sink:
        case ir.Write() | ir.Kth() | ir.Scan() | ir.Put():
            return replace(sink, result=first)
        case ir.Fold():
            return replace(sink, results=results)
        case ir.Keep():
            carried = tuple((value, name) for value, (_, name) in zip(rest[2:], sink.carried))
            return replace(sink, index=first, count=rest[0], cut=rest[1], carried=carried)
        case ir.Top():
            return replace(sink, index=first, carried=tuple((v, name) for v, (_, name) in zip(rest, sink.carried)))


def sink_combine(sink: ir.Sink) -> ir.Combine | None:
    """How a sink combines, if it does."""
    return sink.combine if isinstance(sink, (ir.Fold, ir.Scan)) else None


def reads(operation: ir.Operation) -> tuple[ir.Value, ...]:
    """The values that an operation reads, each once, counts included; of a loop those from outside."""
    return _distinct(_reads(operation))


def block_reads(operations: Iterable[ir.Operation]) -> tuple[ir.Value, ...]:
    """The values that a list of operations reads without defining them."""
    defined: set[str] = set()
    outside: list[ir.Value] = []
    for operation in operations:
        outside += [value for value in reads(operation) if value.name not in defined]
        defined.update(value.name for value in ir.results(operation))
    return _distinct(outside)


def body_reads(body: ir.Body) -> Iterator[ir.Value]:
    """The sources of a body's loads, and their counts."""
    for statement in body:
        if statement.source is not None:
            yield statement.source
            yield from count_of(statement.source.count)


def count_of(name: str | None) -> Iterator[ir.Value]:
    """The value that a count names, if there is one."""
    if name is not None:
        yield ir.Value(name=name, dtype=U32)


def _reads(operation: ir.Operation) -> Iterator[ir.Value]:
    match operation:
        case ir.Sweep():
            yield from count_of(operation.count)
            yield from body_reads(operation.body)
            for sink in operation.sinks:
                combine = sink_combine(sink)
                yield from body_reads(combine.body) if combine is not None else ()
                if isinstance(sink, ir.Put) and sink.base is not None:
                    yield sink.base
        case ir.MatMul():
            yield from (operation.left, operation.right)
        case ir.Loop():
            yield from (carried.initial for carried in operation.carried)
            yield from loop_captures(operation)
        case _:
            yield operation.source
            yield from count_of(operation.source.count)


def loop_captures(loop: ir.Loop) -> tuple[ir.Value, ...]:
    """The values from outside that a loop's operations, condition and yields read."""
    inside = {carried.parameter.name for carried in loop.carried}
    inside.update(value.name for operation in (*loop.head, *loop.body) for value in ir.results(operation))
    ends = (loop.condition, *(carried.yielded for carried in loop.carried))
    everything = (*block_reads((*loop.head, *loop.body)), *ends)
    return _distinct(value for value in everything if value.name not in inside)


def _distinct(values: Iterable[ir.Value]) -> tuple[ir.Value, ...]:
    return tuple({value.name: value for value in values}.values())
