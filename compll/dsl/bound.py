"""A call with its arguments sorted out by parameter: what the rule of a primitive works on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from compll.dsl import ast
from compll.dsl.context import Context
from compll.dsl.types import ElementType, Type
from compll.primitives import Formal


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """`given` maps each parameter that has an argument to its expressions (several for a variadic one)."""

    call: ast.Call
    formals: tuple[Formal, ...]
    given: Mapping[str, list[ast.Expression]]
    expected: ElementType | None

    def operand(self, name: str) -> ast.Expression:
        return self.given[name][0]

    def option(self, name: str) -> ast.Expression | None:
        return self.given[name][0] if name in self.given else None

    def operands(self) -> list[ast.Expression]:
        """The expressions of all parameters that are no options, in order."""
        return [e for f in self.formals if not f.option for e in self.given.get(f.name, ())]

    def finish(
        self, operands: Sequence[ast.Expression], options: Mapping[str, ast.Expression] | None = None, *, type_: Type
    ) -> ast.Expression:
        """The typed call: operands without names, then options by name."""
        arguments = [ast.Argument(span=e.span, name=None, value=e) for e in operands]
        arguments += [ast.Argument(span=e.span, name=name, value=e) for name, e in (options or {}).items()]
        return replace(self.call, arguments=tuple(arguments), type=type_)


Rule = Callable[[Context, Bound], ast.Expression]
