"""Names and what they mean: symbols, nested scopes, and the nearest known name to a mistyped one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Literal

from compll.diagnostics import Span
from compll.dsl.types import Type

Kind = Literal[
    "parameter", "state", "size", "dimension", "local", "argument", "element", "field", "payload", "gradient"
]  # fmt: skip

#: How a message names each kind.
WORDS: dict[Kind, str] = {
    "parameter": "a parameter",
    "state": "a state",
    "size": "a size",
    "dimension": "a dimension",
    "local": "a local value",
    "argument": "an argument",
    "element": "an element",
    "field": "a payload field",
    "payload": "the payload",
    "gradient": "the gradient",
}


@dataclass(slots=True)
class Symbol:
    """A name with its meaning; `used` is set by the first look-up that reads it. Without a span it is built in."""

    name: str
    kind: Kind
    type: Type
    span: Span | None
    used: bool = False


class Scope:
    """A table of names over an outer one."""

    def __init__(self, outer: Scope | None = None):
        self.outer = outer
        self.symbols: dict[str, Symbol] = {}

    def add(self, symbol: Symbol) -> None:
        """Enters a name, over an outer one of the same name."""
        self.symbols[symbol.name] = symbol

    def find(self, name: str) -> Symbol | None:
        """The innermost symbol of that name."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.symbols:
                return scope.symbols[name]
            scope = scope.outer
        return None

    def names(self) -> list[str]:
        """Every visible name."""
        outer = self.outer.names() if self.outer else []
        return [*self.symbols, *outer]


def did_you_mean(name: str, candidates: Iterable[str]) -> str:
    """A hint with the nearest candidate, or an empty one."""
    near = get_close_matches(name, sorted(set(candidates)), n=1, cutoff=0.6)
    return f"did you mean `{near[0]}`?" if near else ""
