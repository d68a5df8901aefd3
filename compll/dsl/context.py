"""What the checker knows while it walks: the scope, the place, what was found wrong. Holds no rule of the language."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol, TypeVar

from compll.diagnostics import CompllError, Diagnostic, Span
from compll.dsl import ast
from compll.dsl.facts import Facts
from compll.dsl.scope import Scope, Symbol
from compll.dsl.types import ArrayType, Bounded, Dimension, ElementType, Poison, SymbolicUint
from compll.sizes import Size, evaluate, substitute

Place = Literal["encode", "decode", "fn", "payload", "initial", "condition"]
Expression = TypeVar("Expression", bound=ast.ExpressionNode)


class ValueChecker(Protocol):
    """Types an expression as a value; a whole number adapts to `expected`."""

    def __call__(
        self, context: Context, expression: ast.Expression, expected: ElementType | None = None
    ) -> ast.Expression: ...


@dataclass(frozen=True, slots=True)
class Draw:
    """One shared draw: its primitive and extents; None for one inside a `fn`, which is not compared."""

    call: ast.Call
    extents: tuple[Size, ...]


@dataclass(frozen=True, slots=True)
class Instance:
    """A `fn` for one binding of the dimensions that its parameters name."""

    name: str
    function: ast.Function
    dimensions: tuple[tuple[str, Size], ...]


@dataclass(slots=True, kw_only=True)
class Context:
    """One check of one program. `value` ties the knot between expressions and the rules of primitives.

    `program` is the scope of parameters, states, dimensions and named sizes, above every body.
    """

    value: ValueChecker
    program: Scope
    scope: Scope
    functions: Mapping[str, ast.Function]
    facts: Mapping[str, Facts]
    place: Place = "encode"
    in_lambda: bool = False
    in_repeat: bool = False
    initial_shape: tuple[Dimension, ...] | None = None
    problems: list[Diagnostic] = field(default_factory=list)
    definitions: dict[str, Size] = field(default_factory=dict)
    probes: list[dict[str, float]] = field(default_factory=list)
    draws: dict[str, list[Draw | None]] = field(default_factory=lambda: {"encode": [], "decode": []})
    instances: dict[tuple[str, tuple[tuple[str, Size], ...]], Instance] = field(default_factory=dict)
    fields_read: set[str] = field(default_factory=set)
    poisoned_fields: set[str] = field(default_factory=set)
    poisoned_functions: set[str] = field(default_factory=set)
    bounds: int = 0

    def report(self, code: str, message: str, span: Span, *, label: str = "", hint: str = "") -> Poison:
        """Notes an error and gives the type of what cannot be typed."""
        self.problems.append(Diagnostic(code=code, message=message, span=span, label=label, hint=hint))
        return Poison()

    def wrong(self, node: Expression, code: str, message: str, *, hint: str = "") -> Expression:
        """Notes an error at an expression and returns the expression poisoned."""
        return replace(node, type=self.report(code, message, node.span, hint=hint))

    def warn(self, code: str, message: str, span: Span, *, hint: str = "") -> None:
        self.problems.append(Diagnostic(code=code, message=message, span=span, hint=hint, severity="warning"))

    def define(self, symbol: Symbol, *, shadows: bool = False) -> None:
        """Enters a name; a name that is visible already is an error unless it may be shadowed."""
        earlier = self.scope.symbols.get(symbol.name) if shadows else self.scope.find(symbol.name)
        if earlier is not None and symbol.span is not None:
            where = f"it is defined on line {earlier.span.line}" if earlier.span else "it is built in"
            self.report("E0104", f"`{symbol.name}` is defined already", symbol.span, label=where)
            return
        self.scope.add(symbol)

    def parameter_names(self) -> frozenset[str]:
        """The visible parameters: what is known when a program is loaded, before any shape is."""
        symbols = {name: self.scope.find(name) for name in self.scope.names()}
        return frozenset(name for name, symbol in symbols.items() if symbol and symbol.kind == "parameter")

    @contextmanager
    def nested(self, scope: Scope | None = None) -> Iterator[Scope]:
        """Works in an inner scope (or in the given one)."""
        before, self.scope = self.scope, scope or Scope(self.scope)
        try:
            yield self.scope
        finally:
            self.scope = before

    @contextmanager
    def quiet(self) -> Iterator[list[Diagnostic]]:
        """Keeps what is reported inside out of the result, and shows it to the caller."""
        before, self.problems = self.problems, []
        try:
            yield self.problems
        finally:
            self.problems = before

    def fresh_bound(self, limit: Size) -> Bounded:
        """The dimension of a new data-dependent length."""
        self.bounds += 1
        return Bounded(limit, f"filter{self.bounds}")

    # --- equality of sizes ---------------------------------------------------------------------------------------

    def same_size(self, left: Size, right: Size) -> bool:
        """Whether two sizes are equal: by form, or by value at every probe of shapes and parameters."""
        left, right = substitute(left, self.definitions), substitute(right, self.definitions)
        if left == right:
            return True
        values = [(_try(left, probe), _try(right, probe)) for probe in self.probes]
        known = [(a, b) for a, b in values if a is not None and b is not None]
        return bool(known) and all(a == b for a, b in known)

    def exceeds(self, left: Size, right: Size) -> bool:
        """Whether one size is greater than another at some probe."""
        left, right = substitute(left, self.definitions), substitute(right, self.definitions)
        values = [(_try(left, probe), _try(right, probe)) for probe in self.probes]
        return any(a is not None and b is not None and a > b for a, b in values)

    def same_dimension(self, left: Dimension, right: Dimension) -> bool:
        if isinstance(left, Bounded) or isinstance(right, Bounded):
            return isinstance(left, Bounded) and isinstance(right, Bounded) and left.origin == right.origin
        return self.same_size(left, right)

    def same_shape(self, left: tuple[Dimension, ...], right: tuple[Dimension, ...]) -> bool:
        return len(left) == len(right) and all(map(self.same_dimension, left, right))

    def same_element(self, left: ElementType, right: ElementType) -> bool:
        if isinstance(left, SymbolicUint) and isinstance(right, SymbolicUint):
            return self.same_size(left.width, right.width)
        return left == right

    def same_type(self, left: ArrayType, right: ArrayType) -> bool:
        return self.same_element(left.element, right.element) and self.same_shape(left.shape, right.shape)


def _try(size: Size, environment: Mapping[str, float]) -> float | None:
    try:
        return float(evaluate(size, environment))
    except (CompllError, KeyError, OverflowError):
        return None
