"""Evaluating parts of a sweep's body again, in later launches or later passes of one launch.

A selection reads its keys several times. In between the sweep's own results may have replaced inputs of its body
(states are updated in place), so a value that the sweep stores is read back, and one that can no longer be computed is
kept in scratch.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from typing import assert_never

from compll.codegen import ir
from compll.codegen.emit.cuda_context import CTYPE_BYTES, Context
from compll.codegen.emit.cuda_spelling import RESERVED, AheadLoads, CudaSpelling
from compll.codegen.emit.expr import Level, Line, body_lines, compute_ctype, slice_body, storage_ctype
from compll.codegen.emit.names import Names
from compll.codegen.plan import Buffer
from compll.sizes import product


@dataclass
class Lines:
    """Body lines ready to place: what stands in front of loops, per row, and at every position."""

    body: ir.Body
    generators: list[str]
    lines: dict[str, Line]
    ahead: AheadLoads

    def at(self, *levels: Level) -> list[str]:
        return [line.declaration for line in self.lines.values() if line.level in levels]

    def name(self, statement: str) -> str:
        return self.lines[statement].name

    @property
    def uniform(self) -> list[str]:
        return [*self.generators, *self.at(Level.UNIFORM)]

    @property
    def inner(self) -> list[str]:
        return self.at(Level.ROW, Level.ELEMENT)

    def inner_of(self, roots: Collection[str]) -> list[str]:
        """The inner lines that some of the roots need."""
        lines = [self.lines[s.name] for s in slice_body(self.body, roots)]
        return [line.declaration for line in lines if line.level > Level.UNIFORM]

    @property
    def names(self) -> list[str]:
        """All identifiers that the lines declare."""
        return [*(text.split(" = ")[0].split()[-1] for text in self.generators), *(n.name for n in self.lines.values())]


@dataclass
class SweepBody:
    """The body of a sweep as first evaluated and as replayed. `stores` are lines that keep values for replays."""

    context: Context
    kernel: str
    sweep: ir.Sweep
    by_rows: bool
    stores: list[str] = field(default_factory=list)
    _replayed: ir.Body = ()

    def __post_init__(self) -> None:
        self._replayed = tuple(self._read_back())
        for root in self._replayed_roots():
            if self._is_stale(slice_body(self._replayed, (root,))):
                self._keep(root)

    def print(self, roots: Collection[str], *, before: bool = False) -> Lines:
        """The lines that compute `roots` again; `before`: as they are before the main launch has stored anything."""
        return self._print(slice_body(self.sweep.body if before else self._replayed, roots), ahead=False)

    def _print(self, body: ir.Body, *, ahead: bool) -> Lines:
        names = Names(RESERVED)
        loads = AheadLoads(names)
        spelling = CudaSpelling(
            memory=self.context.memory, shape=self.sweep.shape, by_rows=self.by_rows,
            ahead=loads if ahead else None,
        )  # fmt: skip
        lines = body_lines(body, spelling, names)
        return Lines(body, list(spelling.generators.values()), lines, loads)

    def print_first(self) -> Lines:
        """The lines that the first launch evaluates: what its sinks use at once, and what is kept for replays."""
        roots = list(self.stores)
        for sink in self.sweep.sinks:
            match sink:
                case ir.Write(value=value) | ir.Fold(value=value):
                    roots.append(value)
                case ir.Put(index=index, value=value):
                    roots += [index, value]
                case ir.Keep(predicate=predicate):
                    roots.append(predicate)
                case ir.Top(key=key) | ir.Kth(key=key):
                    roots.append(key)
                case ir.Scan():
                    pass
                case _:
                    assert_never(sink)
        return self._print(slice_body(self.sweep.body, roots), ahead=True)

    def ctype(self, statement: str) -> str:
        """The C type that a statement computes in."""
        return compute_ctype(self.statement(statement).dtype)

    def statement(self, name: str) -> ir.Statement:
        return next(s for s in self.sweep.body if s.name == name)

    def _read_back(self) -> Iterator[ir.Statement]:
        """The body with statements that the sweep stores exactly as loads of what it stored."""
        written: dict[str, ir.Value] = {}
        for sink in self.sweep.sinks:
            if isinstance(sink, ir.Write) and self.context.memory.holds(sink.result, self.statement(sink.value).dtype):
                written.setdefault(sink.value, sink.result)
        for statement in self.sweep.body:
            if statement.name in written and statement.opcode not in ("const", "param", "size", "position"):
                yield replace(statement, opcode="load", args=(), source=written[statement.name], attributes=())
            else:
                yield statement

    def _replayed_roots(self) -> list[str]:
        roots: list[str] = []
        for sink in self.sweep.sinks:
            match sink:
                case ir.Top(key=key, carried=carried):
                    roots += [key, *(name for _, name in carried)]
                case ir.Kth(key=key):
                    roots.append(key)
                case ir.Keep(carried=carried):
                    roots += [name for _, name in carried]
                case ir.Scan(value=value):
                    roots.append(value)
                case _:
                    pass
        return list(dict.fromkeys(roots))

    def _is_stale(self, body: ir.Body) -> bool:
        """Whether the sweep's results have replaced something that the body loads."""
        memory = self.context.memory
        results = [value for sink in self.sweep.sinks for value in ir.sink_results(sink)]
        replaced = {memory.buffer(value).name: value.name for value in results}
        loads = [s.source for s in body if s.source is not None]
        return any(replaced.get(memory.buffer(v).name, v.name) != v.name for v in loads)

    def _keep(self, root: str) -> None:
        """Store a value of the body in scratch, and replay it by reading that."""
        statement = self.statement(root)
        dtype = statement.dtype.computes_as
        ctype = storage_ctype(dtype)
        place = self.context.add_scratch(
            f"{self.kernel}_{root}_kept", ctype, CTYPE_BYTES[ctype], product(self.sweep.shape)
        )
        name = place.removeprefix("s.")
        value = ir.Value(name=f"{self.kernel}.{name}", dtype=dtype, shape=self.sweep.shape)
        self.context.memory.kept[value.name] = Buffer(
            name=name, role="temporary", dtype=dtype, shape=self.sweep.shape
        )
        self.stores.append(root)
        load = replace(statement, opcode="load", args=(), source=value, attributes=())
        self._replayed = tuple(load if s.name == root else s for s in self._replayed)

    def store_lines(self, lines: Lines) -> list[str]:
        """What the first evaluation must store for replays."""
        kept = self.context.memory
        result = []
        for root in self.stores:
            source = next(s.source for s in self._replayed if s.name == root)
            assert source is not None
            result.append(kept.store(source, "i", lines.name(root)))
        return result
