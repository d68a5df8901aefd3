"""One list of operations as a graph: definitions (`Write`s, which may be computed anywhere) and roots (all the rest).

Answers what a root or a definition reads once definitions are computed in place; decides nothing about order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from compll.codegen import ir
from compll.codegen.passes.definition import Definition, Shape, Statements, Use, statements_of, uses_at
from compll.codegen.uses import body_reads, count_of, reads, sink_arguments, sink_combine

Inlines = Callable[[Use], bool]


@dataclass(frozen=True, kw_only=True, eq=False)
class Root:
    """A sink that is no `Write`, with the body it consumes, or an operation that is no sweep."""

    order: int
    operation: ir.Operation
    sink: ir.Sink | None
    shape: Shape
    count: str | None
    statements: Statements

    @property
    def origin(self) -> str:
        return self.operation.origin

    @property
    def results(self) -> tuple[ir.Value, ...]:
        return ir.sink_results(self.sink) if self.sink is not None else ir.results(self.operation)


@dataclass(frozen=True, slots=True)
class Reached:
    """What is read from memory (`leaves`) and what is computed in place (`computed`), in order of discovery."""

    leaves: tuple[Use, ...]
    computed: tuple[Use, ...]


@dataclass(kw_only=True)
class Graph:
    """`outside` are definitions of an enclosing list that may be computed here; `gradient` is the gradient's shape."""

    roots: list[Root] = field(default_factory=list)
    definitions: dict[str, Definition] = field(default_factory=dict)
    outside: Mapping[str, Definition]
    gradient: Shape

    @classmethod
    def of(cls, operations: Iterable[ir.Operation], outside: Mapping[str, Definition], gradient: Shape) -> Graph:
        graph = cls(outside=outside, gradient=gradient)
        order = 0
        for operation in operations:
            sinks = operation.sinks if isinstance(operation, ir.Sweep) else (None,)
            for sink in sinks:
                graph._add(order, operation, sink)
                order += 1
        return graph

    def _add(self, order: int, operation: ir.Operation, sink: ir.Sink | None) -> None:
        if not isinstance(operation, ir.Sweep):
            root = Root(order=order, operation=operation, sink=None, shape=(), count=None, statements={})
            self.roots.append(root)
            return
        shape, count, statements = operation.shape, operation.count, statements_of(operation.body)
        if isinstance(sink, ir.Write):
            self.definitions[sink.result.name] = Definition(
                result=sink.result, shape=shape, count=count, statements=statements, value=sink.value, order=order,
                origin=operation.origin,
            )  # fmt: skip
        else:
            self.roots.append(
                Root(order=order, operation=operation, sink=sink, shape=shape, count=count, statements=statements)
            )

    @property
    def visible(self) -> Mapping[str, Definition]:
        """The definitions that a body here may compute: those of this list, and the portable ones around it."""
        return {**self.outside, **self.definitions}

    def definition(self, name: str) -> Definition | None:
        return self.definitions.get(name) or self.outside.get(name)

    # --- what depends on what ----------------------------------------------------------------------------------------

    def root_uses(self, root: Root) -> Iterator[Use]:
        """What a root reads before anything is computed in place."""
        match root.operation:
            case ir.Sweep() if root.sink is not None:
                yield from uses_at(root.statements, sink_arguments(root.sink), root.shape, "own")
                yield from (Use(count, "memory") for count in count_of(root.count))
                combine = sink_combine(root.sink)
                yield from (Use(v, "memory") for v in (body_reads(combine.body) if combine is not None else ()))
                if isinstance(root.sink, ir.Put) and root.sink.base is not None:
                    yield Use(root.sink.base, "memory")
            case ir.Loop() as loop:
                yield from (Use(value, "memory") for value in self._loop_reads(loop))
            case operation:
                yield from (Use(value, "memory") for value in reads(operation))

    def _loop_reads(self, loop: ir.Loop) -> Iterator[ir.Value]:
        """What a loop needs in memory: portable definitions are computed inside it."""
        fixed = self._loop_memory(loop)
        for value in reads(loop):
            definition = self.definition(value.name)
            if definition is None or not definition.portable or value.name in fixed:
                yield value
            else:
                reached = self.reach(definition.uses("own"), lambda use: self._is_portable(use.value))
                yield from (use.value for use in reached.leaves)

    def _loop_memory(self, loop: ir.Loop) -> set[str]:
        """The names that a loop carries, yields, tests or hands to operations as arrays."""
        inner = Graph.of((*loop.head, *loop.body), {}, self.gradient)
        ends = (loop.condition, *(v for c in loop.carried for v in (c.initial, c.yielded)))
        arrays = (use.value for root in inner.roots for use in inner.root_uses(root) if use.kind == "memory")
        return {value.name for value in (*ends, *arrays)}

    def _is_portable(self, value: ir.Value) -> bool:
        definition = self.definition(value.name)
        return definition is not None and definition.portable

    def reach(self, uses: Iterable[Use], inlines: Inlines) -> Reached:
        """Follow reads through the definitions that `inlines` allows."""
        leaves: dict[Use, None] = {}
        computed: dict[Use, None] = {}
        pending = list(uses)
        while pending:
            use = pending.pop(0)
            definition = self.definition(use.value.name)
            if definition is None or use.kind == "memory" or not inlines(use):
                leaves[use] = None
            elif use not in computed:
                computed[use] = None
                pending += definition.uses(use.kind)
                pending += [Use(count, "memory") for count in count_of(use.value.count)]
        return Reached(tuple(leaves), tuple(computed))

    # --- what may be computed in place -------------------------------------------------------------------------------

    def may_inline(self, use: Use, shape: Shape) -> bool:
        """Whether a sweep over `shape` may compute the value itself rather than load it."""
        definition = self.definition(use.value.name)
        if definition is None or use.kind == "memory":
            return False
        match use.kind:
            case "scalar":
                return not definition.draws
            case "row":
                return not definition.expensive
            case "at" if definition.expensive:
                return definition.shape == self.gradient and shape != self.gradient
        return True
