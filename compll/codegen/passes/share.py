"""Equal operations are done once: reductions, selections, scans, sorts and products of the same things.

Elementwise arrays need no sharing here: fusion computes them where they are read. A result that is an output keeps an
operation of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from compll.codegen import ir
from compll.codegen.passes.definition import reachable, statements_of
from compll.codegen.rewrite import rename
from compll.codegen.uses import sink_arguments, with_arguments, with_results


def share_equal(program: ir.Program) -> ir.Program:
    """Replace later of equal operations by the results of the first."""
    functions = tuple(_Sharing({p.value.name for p in f.outputs}).function(f) for f in program.functions)
    return program if functions == program.functions else replace(program, functions=functions)


Seen = dict[object, tuple[ir.Value, ...]]


@dataclass
class _Sharing:
    outputs: set[str]
    names: dict[str, str] = field(default_factory=dict)  # result that went -> the one that stands for it

    def function(self, function: ir.Function) -> ir.Function:
        return replace(function, operations=self._block(function.operations, {}))

    def _block(self, operations: tuple[ir.Operation, ...], seen: Seen) -> tuple[ir.Operation, ...]:
        kept: list[ir.Operation] = []
        for operation in operations:
            operation = rename(operation, self.names)
            match operation:
                case ir.Sweep():
                    sinks = tuple(sink for sink in operation.sinks if not self._is_known(operation, sink, seen))
                    kept += [replace(operation, sinks=sinks)] if sinks else []
                case ir.Loop():
                    kept.append(self._loop(operation, seen))
                case _:
                    known = self._known(_operation_key(operation), ir.results(operation), seen)
                    kept += [] if known else [operation]
        return tuple(kept)

    def _loop(self, loop: ir.Loop, seen: Seen) -> ir.Loop:
        ends = {loop.condition.name, *(carried.yielded.name for carried in loop.carried)}
        self.outputs |= ends
        inner = dict(seen)
        head = self._block(loop.head, inner)
        return replace(loop, head=head, body=self._block(loop.body, inner))

    def _is_known(self, sweep: ir.Sweep, sink: ir.Sink, seen: Seen) -> bool:
        if isinstance(sink, ir.Write):
            return False
        return self._known(_sink_key(sweep, sink), ir.sink_results(sink), seen)

    def _known(self, key: object, results: tuple[ir.Value, ...], seen: Seen) -> bool:
        """Whether an equal node came before; if so its results are remembered as standing for these."""
        if any(value.name in self.outputs for value in results):
            return False
        if key not in seen:
            seen[key] = results
            return False
        self.names.update({new.name: old.name for new, old in zip(results, seen[key])})
        return True


def _operation_key(operation: ir.Operation) -> object:
    return rename(replace(operation, origin=""), {value.name: "" for value in ir.results(operation)})


def _sink_key(sweep: ir.Sweep, sink: ir.Sink) -> object:
    """What a sink computes, with statements and results named by their order."""
    statements = statements_of(sweep.body)
    needed = {s.name for s in reachable(statements, sink_arguments(sink))}
    order = {s.name: str(i) for i, s in enumerate(s for s in sweep.body if s.name in needed)}
    body = tuple(
        replace(s, name=order[s.name], args=tuple(order[a] for a in s.args)) for s in sweep.body if s.name in needed
    )
    results = tuple(replace(value, name="", count=None) for value in ir.sink_results(sink))
    blank = with_results(with_arguments(sink, tuple(order[a] for a in sink_arguments(sink))), results)
    return (sweep.shape, sweep.count, repr(body), blank)
