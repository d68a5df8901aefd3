"""Words of the segment record that a program uses as names of its own."""

from __future__ import annotations

from dataclasses import replace

from compll.codegen import ir
from compll.codegen.plan import KEY_FIELDS
from compll.sizes import Var


def record_words(program: ir.Program) -> frozenset[str]:
    """The names that fields of the record have whatever the program calls its things."""
    ports = ("gradient", "residual", "out", "finite", "cut", "payload", "numel")
    return frozenset((*ports, *(f"state_{state.name}" for state in program.states), *KEY_FIELDS))


def reserved_names(program: ir.Program) -> frozenset[str]:
    """The names of the record that are not free for temporaries."""
    named = (name for name, _ in program.sizes)
    dimensions = (name for name in program.gradient.names if name)
    return record_words(program).union(named, dimensions, (p.name for p in program.parameters))


def apart(program: ir.Program, operations: tuple[ir.Operation, ...]) -> tuple[ir.Operation, ...]:
    """The operations with parameters that are called like a word of the record (`step`) read as sizes.

    A size has a field by another name, and a parameter's value is one of the values that sizes are made of.
    """
    clashing = {p.name for p in program.parameters} & record_words(program)
    return tuple(_apart(operation, clashing) for operation in operations) if clashing else operations


def _apart(operation: ir.Operation, clashing: set[str]) -> ir.Operation:
    match operation:
        case ir.Sweep(body=body, sinks=sinks):
            split = tuple(_sink_apart(sink, clashing) for sink in sinks)
            return replace(operation, body=_body_apart(body, clashing), sinks=split)
        case ir.Loop(head=head, body=inner):
            first, rest = (tuple(_apart(o, clashing) for o in region) for region in (head, inner))
            return replace(operation, head=first, body=rest)
    return operation


def _sink_apart(sink: ir.Sink, clashing: set[str]) -> ir.Sink:
    if isinstance(sink, (ir.Fold, ir.Scan)):
        return replace(sink, combine=replace(sink.combine, body=_body_apart(sink.combine.body, clashing)))
    return sink


def _body_apart(body: ir.Body, clashing: set[str]) -> ir.Body:
    return tuple(
        replace(s, opcode="size", attributes=(("value", Var(str(s.attribute("name")))),))
        if s.opcode == "param" and s.attribute("name") in clashing
        else s
        for s in body
    )
