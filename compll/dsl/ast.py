"""The syntax tree. Every node has a span (not compared); every expression a type, filled in by the checker.

A tree from the parser has `type=None` everywhere; `check` returns a new tree in which it never is.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Union

from compll.diagnostics import Span
from compll.dsl.types import ArrayType, Type


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpressionNode(Node):
    type: Type | None = field(default=None, compare=False)


# --- expressions -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Number(ExpressionNode):
    """`3`, `0.5`, `1e-3`, `inf`. A whole number adapts to the type its context needs; `is_float` tells the spelling."""

    value: float
    is_float: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Boolean(ExpressionNode):
    value: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Name(ExpressionNode):
    """A local, parameter, state, size, dimension, or a function given as a value (`abs`)."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Member(ExpressionNode):
    """`top.index`, `p.value`."""

    record: Expression
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Element(ExpressionNode):
    """`g[index]`: gather."""

    array: Expression
    index: Expression


@dataclass(frozen=True, slots=True, kw_only=True)
class Unary(ExpressionNode):
    """`operator` is one of - ! ~."""

    operator: str
    operand: Expression


@dataclass(frozen=True, slots=True, kw_only=True)
class Binary(ExpressionNode):
    """`operator` is one of + - * / % << >> & | ^ < <= > >= == != && ||."""

    operator: str
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditional(ExpressionNode):
    condition: Expression
    then: Expression
    otherwise: Expression


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument(Node):
    """One argument of a call; `name` is None for a positional one."""

    name: str | None
    value: Expression


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(ExpressionNode):
    """`topk(g, k, by = abs)`, `random.uniform(n)`: `function` is the dotted name of a primitive or of a `fn`."""

    function: str
    arguments: tuple[Argument, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cast(ExpressionNode):
    """`u2(code)`, `uint<bits>(x)`, `f32(k)`."""

    element: TypeName
    operand: Expression


@dataclass(frozen=True, slots=True, kw_only=True)
class Lambda(ExpressionNode):
    """`|x, u| expression`."""

    parameters: tuple[str, ...]
    body: Expression


Expression = Union[
    Number, Boolean, Name, Member, Element, Unary, Binary, Conditional, Call, Cast, Lambda
]  # fmt: skip

# --- types as written ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeName(Node):
    """`f32`, `u2`, `uint<bits>` (name "uint" with a width)."""

    name: str
    width: Expression | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent(Node):
    """One dimension: `n`, `rows`, `blocks(512)`, `k`, `<= limit` (bounded)."""

    size: Expression
    bounded: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeExpression(Node):
    """`f32[n]`, `ascending(n)[k]`: `ascending` holds the extent below which the indices lie, else None.

    `resolved` is filled in by the checker.
    """

    element: TypeName
    shape: tuple[Extent, ...] = ()
    ascending: Expression | None = None
    resolved: ArrayType | None = field(default=None, compare=False)


# --- statements ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeDefinition(Node):
    """`size k = ...;`"""

    name: str
    value: Expression


@dataclass(frozen=True, slots=True, kw_only=True)
class Let(Node):
    name: str
    value: Expression


@dataclass(frozen=True, slots=True, kw_only=True)
class Assign(Node):
    """`velocity = ...;`: a new value of a state, or of a local inside `repeat`."""

    name: str
    value: Expression


@dataclass(frozen=True, slots=True, kw_only=True)
class Clear(Node):
    """`clear(velocity, index);`: the state's elements at `index` become zero."""

    state: str
    index: Expression


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeat(Node):
    """`repeat <= 10 while cond { ... }`: assignments to locals of the enclosing body are carried round."""

    limit: Expression
    condition: Expression
    body: tuple[Statement, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReturnFields(Node):
    """`return { index: top.index, value: top.value };` each argument named by its field."""

    fields: tuple[Argument, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Return(Node):
    value: Expression


Statement = Union[SizeDefinition, Let, Assign, Clear, Repeat, ReturnFields, Return]

# --- declarations ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Range(Node):
    """`in (0, 1]`; each end may be open."""

    low: Expression
    high: Expression
    low_open: bool
    high_open: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter(Node):
    """`param ratio: f32 = 0.01 in (0, 1];`"""

    name: str
    element: TypeName
    default: Expression
    range: Range | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Feedback(Node):
    """`feedback residual;` (kind "residual") or `feedback none;`, with an optional condition on parameters."""

    kind: str
    condition: Expression | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Trait(Node):
    """One trait name with its own condition; `trait linear, unbiased if scale;` makes two."""

    name: str
    condition: Expression | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class State(Node):
    """`state q: f32[cols, rank] = random.normal(shared = true);`; zeros without an initial value."""

    name: str
    type: TypeExpression
    initial: Expression | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PayloadField(Node):
    """`index: u16[rows, k] if cols <= 65536 else u32[rows, k];`: the alternatives in order, the last unconditional.

    Each alternative is (condition, type); a field without `if` has the one alternative (None, type).
    """

    name: str
    alternatives: tuple[tuple[Expression | None, TypeExpression], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionParameter(Node):
    name: str
    type: TypeExpression


@dataclass(frozen=True, slots=True, kw_only=True)
class Function(Node):
    """`fn levels(b: i32) -> f32 { ... }`; expanded where it is called."""

    name: str
    parameters: tuple[FunctionParameter, ...]
    result: TypeExpression
    body: tuple[Statement, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Encode(Node):
    """`encode(g: f32[rows, cols]) { ... }`: the dimensions' names are bound here for the whole compressor."""

    gradient: str
    type: TypeExpression
    body: tuple[Statement, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Decode(Node):
    """`decode(p) -> f32[n] { ... }`."""

    payload: str
    type: TypeExpression
    body: tuple[Statement, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Compressor(Node):
    """A whole program; declarations are kept in the order of the kinds below, members in source order."""

    name: str
    params: tuple[Parameter, ...]
    functions: tuple[Function, ...]
    feedback: Feedback | None
    traits: tuple[Trait, ...]
    states: tuple[State, ...]
    payload: tuple[PayloadField, ...]
    encode: Encode
    decode: Decode | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Module(Node):
    """One file: the comment lines at its head (without `//`), and its compressor."""

    header: tuple[str, ...]
    compressor: Compressor
