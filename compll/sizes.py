"""Size expressions: symbolic array extents and counts, evaluated on the host in float64.

A size depends on the gradient's shape and on parameters, never on data. `numel` is always known; a program's own
names for its dimensions (`n`, `rows`, `cols`), its parameters and its `size` definitions are the other variables.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Union

from compll.diagnostics import CompllError


@dataclass(frozen=True, slots=True)
class Num:
    """A constant; int and float of equal value are equal."""

    value: float

    def __str__(self) -> str:
        return str(int(self.value)) if float(self.value).is_integer() else repr(self.value)


@dataclass(frozen=True, slots=True)
class Var:
    """A variable: `numel`, a dimension's name, a parameter or a named size."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Apply:
    """An operation of `OPERATIONS` applied to sizes."""

    operation: str
    arguments: tuple[Size, ...]
    terms: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "terms", 1 + sum(map(terms, self.arguments)))

    def __str__(self) -> str:
        texts = [str(a) for a in self.arguments]
        symbol = _SYMBOLS.get(self.operation)
        if symbol:
            return "(" + f" {symbol} ".join(texts) + ")"
        return f"{self.operation}({', '.join(texts)})"


Size = Union[Num, Var, Apply]

#: Up to here float64 tells every whole number from the next.
LARGEST = 2**53


def terms(size: Size) -> int:
    """How many names, numbers and operations it takes to write the size out."""
    return size.terms if isinstance(size, Apply) else 1


_SYMBOLS = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "rem": "%", "shl": "<<", "shr": ">>",
    "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!=", "and": "&&", "or": "||",
}  # fmt: skip

OPERATIONS: dict[str, Callable[..., float]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "rem": lambda a, b: math.fmod(a, b),
    "neg": lambda a: -a,
    "min": min,
    "max": max,
    "floor": math.floor,
    "ceil": math.ceil,
    "round": round,
    "trunc": math.trunc,
    "sqrt": math.sqrt,
    "log2": math.log2,
    "pow": lambda a, b: a**b,
    "abs": abs,
    "shl": lambda a, b: int(a) << min(int(b), 1024),  # beyond float64 from there on
    "shr": lambda a, b: int(a) >> int(b),
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "and": lambda a, b: bool(a) and bool(b),
    "or": lambda a, b: bool(a) or bool(b),
    "not": lambda a: not a,
    "select": lambda c, a, b: a if c else b,
}

_COMMUTATIVE = {"add", "mul", "min", "max", "eq", "ne", "and", "or"}


def apply(operation: str, *arguments: Size) -> Size:
    """An operation with constants folded and the arguments of a commutative one in a fixed order."""
    if all(isinstance(a, Num) for a in arguments):
        try:
            return Num(float(OPERATIONS[operation](*(a.value for a in arguments if isinstance(a, Num)))))
        except (ArithmeticError, ValueError, TypeError):  # a TypeError: a complex number, as of pow(-8, 0.5)
            return Apply(operation, arguments)
    if operation == "mul" and Num(1) in arguments:
        return next((a for a in arguments if a != Num(1)), Num(1))
    if operation in ("add", "sub") and arguments[1] == Num(0):
        return arguments[0]
    if operation in _COMMUTATIVE:
        arguments = tuple(sorted(arguments, key=str))
    return Apply(operation, arguments)


def product(sizes: tuple[Size, ...]) -> Size:
    """The number of elements of a shape."""
    result: Size = Num(1)
    for size in sizes:
        result = apply("mul", result, size)
    return result


def substitute(size: Size, bindings: Mapping[str, Size]) -> Size:
    """The size with its bound variables replaced, and simplified."""
    match size:
        case Num():
            return size
        case Var(name):
            return bindings.get(name, size)
        case Apply(operation, arguments):
            return apply(operation, *(substitute(a, bindings) for a in arguments))


def variables(size: Size) -> frozenset[str]:
    """The names that a size depends on."""
    match size:
        case Num():
            return frozenset()
        case Var(name):
            return frozenset((name,))
        case Apply(_, arguments):
            return frozenset().union(*(variables(a) for a in arguments))


def evaluate(size: Size, environment: Mapping[str, float]) -> float:
    """The value in float64. Raises CompllError naming the expression when it has none."""
    try:
        return _value(size, environment)
    except (ArithmeticError, ValueError) as problem:
        raise CompllError(f"size `{size}` has no value: {problem.args[-1]}") from None
    except TypeError:  # a complex number, as of pow(-8, 0.5)
        raise CompllError(f"size `{size}` has no value: it is no real number") from None


def _value(size: Size, environment: Mapping[str, float]) -> float:
    match size:
        case Num(value):
            return value
        case Var(name):
            return environment[name]
        case Apply(operation, arguments):
            return float(OPERATIONS[operation](*(_value(a, environment) for a in arguments)))


def extent(size: Size, environment: Mapping[str, float]) -> int:
    """The value as a whole number in [0, LARGEST]; anything else is a CompllError that shows expression and value."""
    value = evaluate(size, environment)
    if not 0 <= value <= LARGEST or value != int(value):
        raise CompllError(f"size `{size}` needs a whole number from 0 to 2^53, got {value:.17g}")
    return int(value)
