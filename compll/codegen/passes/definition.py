"""Writes as definitions: what an array element is made of, where an element is asked for, and when copying pays.

Shared by the scheduler, which only asks what depends on what, and by the expander, which writes the fused bodies.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from compll.codegen import ir
from compll.codegen.uses import count_of
from compll.sizes import Size

Shape = tuple[Size, ...]
Statements = Mapping[str, ir.Statement]

Kind = Literal["own", "row", "scalar", "at", "memory"]
"""Where a value is read: at the sweep's own position, its row's value, a scalar, at an index; or the array as such."""

_EXPENSIVE = frozenset(("exp", "log", "exp2", "log2", "pow"))


@dataclass(frozen=True, slots=True)
class Use:
    """One way in which a value is read."""

    value: ir.Value
    kind: Kind


@dataclass(frozen=True, kw_only=True)
class Definition:
    """`result[position] = value` over a space, by the statements of the body that computes it."""

    result: ir.Value
    shape: Shape
    count: str | None
    statements: Statements
    value: str
    order: int
    origin: str

    @cached_property
    def draws(self) -> bool:
        return any(ir.OPCODES[s.opcode].kind == "draw" for s in self.needed)

    @cached_property
    def expensive(self) -> bool:
        """Whether computing an element again costs more than reading it from memory."""
        return self.draws or any(s.opcode in _EXPENSIVE for s in self.needed)

    @cached_property
    def needed(self) -> tuple[ir.Statement, ...]:
        return tuple(reachable(self.statements, (self.value,)))

    @cached_property
    def portable(self) -> bool:
        """Whether a loop may compute it anew in each round: cheap, and made of at most one array."""
        arrays = {s.source.name for s in self.needed if s.source is not None and s.source.shape}
        return not self.expensive and len(arrays) <= 1

    def uses(self, kind: Kind) -> Iterator[Use]:
        """What an element reads when it is asked for in the given way."""
        yield from uses_at(self.statements, (self.value,), self.shape, kind)
        yield from (Use(count, "memory") for count in count_of(self.count))


def statements_of(body: ir.Body) -> Statements:
    return {statement.name: statement for statement in body}


def reachable(statements: Statements, names: Iterable[str]) -> Iterator[ir.Statement]:
    """The statements that `names` depend on, each once."""
    seen: set[str] = set()
    pending = list(names)
    while pending:
        name = pending.pop()
        if name not in seen:
            seen.add(name)
            pending += statements[name].args
            yield statements[name]


def uses_at(statements: Statements, names: Iterable[str], shape: Shape, kind: Kind) -> Iterator[Use]:
    """The reads of a body over `shape` that is evaluated in the given way, counts of bounded sources included."""
    for statement in reachable(statements, names):
        if statement.source is None:
            continue
        indexed = statement.opcode == "load_at"
        yield Use(statement.source, "at" if indexed else moved(statement.source, shape, kind))
        yield from (Use(count, "memory") for count in count_of(statement.source.count))


def moved(source: ir.Value, shape: Shape, kind: Kind) -> Kind:
    """How a load in a body over `shape` reads its source when the body is evaluated in the given way."""
    if not source.shape:
        return "scalar"
    return kind if source.shape == shape else "row"
