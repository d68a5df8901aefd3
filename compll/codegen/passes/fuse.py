"""Fusion: elementwise arrays vanish into the sweeps that read them, sweeps over one space become one sweep.

What may be computed where, and which sweeps remain, is decided by `schedule`; this pass writes the sweeps down.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from compll.codegen import ir
from compll.codegen.passes.definition import Definition, Use
from compll.codegen.passes.expand import OWN, Expander
from compll.codegen.passes.graph import Graph, Root
from compll.codegen.passes.group import Group
from compll.codegen.passes.schedule import Scheduler
from compll.codegen.uses import block_reads, sink_arguments, with_arguments
from compll.sizes import Size


def fuse_sweeps(program: ir.Program) -> ir.Program:
    """Inline definitions into their readers and join sweeps over equal spaces, function by function."""
    functions = tuple(_Fusion(program, f, _bounds(f.operations)).function() for f in program.functions)
    return program if functions == program.functions else replace(program, functions=functions)


@dataclass
class _Fusion:
    program: ir.Program
    original: ir.Function
    below: Mapping[str, Size]

    def function(self) -> ir.Function:
        kept = [port.value.name for port in self.original.outputs]
        operations = self._block(self.original.operations, {}, kept, _replaced(self.original))
        return replace(self.original, operations=operations)

    def _block(
        self,
        operations: tuple[ir.Operation, ...],
        outside: Mapping[str, Definition],
        kept: Iterable[str],
        replaces: Mapping[str, str],
    ) -> tuple[ir.Operation, ...]:
        graph = Graph.of(operations, outside, self.program.gradient.shape)
        scheduler = Scheduler(graph=graph, kept=kept, replaces=replaces, packed=self._packed())
        return tuple(self._operation(group, scheduler) for group in scheduler.run())

    def _packed(self) -> frozenset[str]:
        ports = (port for port in self.original.outputs if port.role == "field")
        return frozenset(port.value.name for port in ports if port.value.dtype.bits % 8 != 0)

    def _operation(self, group: Group, scheduler: Scheduler) -> ir.Operation:
        if group.is_sweep:
            return self._sweep(group, scheduler)
        (root,) = group.roots
        if isinstance(root.operation, ir.Loop):
            return self._loop(root.operation, scheduler.graph)
        return root.operation

    def _loop(self, loop: ir.Loop, graph: Graph) -> ir.Loop:
        outside = {name: d for name, d in graph.visible.items() if d.portable}
        yielded = [carried.yielded.name for carried in loop.carried]
        needed = [loop.condition.name, *yielded, *(value.name for value in block_reads(loop.body))]
        head = self._block(loop.head, outside, needed, {})
        inner = {c.yielded.name: c.parameter.name for c in loop.carried}
        body = self._block(loop.body, outside, yielded, inner)
        return replace(loop, head=head, body=body)

    def _sweep(self, group: Group, scheduler: Scheduler) -> ir.Sweep:
        expander = Expander(
            shape=group.shape, count=group.count, definitions=scheduler.graph.visible, below=self.below,
            inlines=lambda value, kind: scheduler.inlines(Use(value, kind), group),
        )  # fmt: skip
        members: list[Root | Definition] = sorted([*group.roots, *group.written], key=lambda member: member.order)
        sinks = tuple(_sink(member, expander) for member in members)
        needed = tuple(name for sink in sinks for name in sink_arguments(sink))
        origins = (member.origin for member in members)
        return ir.Sweep(
            shape=group.shape, count=group.count, body=expander.builder.body(needed), sinks=sinks,
            origin=" | ".join(dict.fromkeys(origin for origin in origins if origin)),
        )  # fmt: skip


def _sink(member: Root | Definition, expander: Expander) -> ir.Sink:
    if isinstance(member, Definition):
        return ir.Write(result=member.result, value=expander.value(member, OWN))
    assert member.sink is not None
    names = sink_arguments(member.sink)
    arguments = tuple(expander.statement(member.statements, member.shape, name, OWN) for name in names)
    return with_arguments(member.sink, arguments)


def _replaced(function: ir.Function) -> dict[str, str]:
    """For each value that lives in the memory of an input or of a scatter's base, the value that was there before."""
    inputs = {(port.role, port.name): port.value.name for port in function.inputs}
    bases = _bases(function.operations)
    replaced: dict[str, str] = {}
    for port in function.outputs:
        old = inputs.get((port.role, port.name))
        name = port.value.name
        while name in bases and bases[name] != old:
            replaced[name] = name = bases[name]
        if old is not None:
            replaced[name] = old
    return {name: old for name, old in replaced.items() if name != old}


def _bases(operations: tuple[ir.Operation, ...]) -> dict[str, str]:
    """Scatter result -> the array it scatters into."""
    sinks = (sink for operation in operations if isinstance(operation, ir.Sweep) for sink in operation.sinks)
    return {s.result.name: s.base.name for s in sinks if isinstance(s, ir.Put) and s.base is not None}


def _bounds(operations: Iterable[ir.Operation]) -> dict[str, Size]:
    """Index arrays -> the extent that all their elements lie below: kept positions, and those of an extreme."""
    below: dict[str, Size] = {}
    for operation in operations:
        match operation:
            case ir.Sweep(shape=(extent,), sinks=sinks):
                for sink in sinks:
                    match sink:
                        case ir.Keep(index=index):
                            below[index.name] = extent
                        case ir.Fold(results=(result,), combine=ir.Combine(kind="argmin" | "argmax")):
                            below[result.name] = extent
            case ir.Loop(head=head, body=body):
                below |= _bounds((*head, *body))
    return below
