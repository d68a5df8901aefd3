"""Expressions that are evaluated on the host: sizes, extents, counts, conditions of declarations.

They consist of shapes, parameters, named sizes and numbers. In the typed tree each has a `SizeType` with its symbolic
value; everything is float64 there, so no width and no cast plays a part.
"""

from __future__ import annotations

from dataclasses import replace

from compll.dsl import ast
from compll.dsl.context import Context
from compll.dsl.limits import MAX_TERMS
from compll.dsl.scope import WORDS, did_you_mean
from compll.dsl.types import ArrayType, Bounded, Poison, SizeType
from compll.sizes import Num, Size, Var, apply, terms

_BINARY = {
    "+": "add", "-": "sub", "*": "mul", "/": "div", "%": "rem", "<<": "shl", ">>": "shr",
    "<": "lt", "<=": "le", ">": "gt", ">=": "ge", "==": "eq", "!=": "ne", "&&": "and", "||": "or",
}  # fmt: skip
_UNARY = {"-": "neg", "!": "not"}
#: The functions that a size may call, with their number of operands.
FUNCTIONS = {
    "min": 2, "max": 2, "floor": 1, "ceil": 1, "round": 1, "trunc": 1, "sqrt": 1, "log2": 1, "pow": 2, "abs": 1,
}  # fmt: skip


def size(context: Context, expression: ast.Expression) -> ast.Expression:
    """The expression typed as a size, or poisoned with one report."""
    typed = _typed(context, expression)
    value = value_of(typed)
    return typed if value is None or is_short(context, value, expression) else replace(typed, type=Poison())


def is_short(context: Context, value: Size, expression: ast.Expression) -> bool:
    """Whether a size is not too long to be written out; reported where it is."""
    if terms(value) > MAX_TERMS:
        message = f"a size of at most {MAX_TERMS} names, numbers and operations, got {terms(value)}"
        context.report("E0138", message, expression.span)
    return terms(value) <= MAX_TERMS


def _typed(context: Context, expression: ast.Expression) -> ast.Expression:
    match expression:
        case ast.Number(value=value):
            return replace(expression, type=SizeType(Num(value)))
        case ast.Boolean(value=value):
            return replace(expression, type=SizeType(Num(float(value))))
        case ast.Name():
            return _name(context, expression)
        case ast.Unary(operator=operator, operand=operand) if operator in _UNARY:
            inner = size(context, operand)
            return replace(expression, operand=inner, type=_applied(_UNARY[operator], inner))
        case ast.Binary(operator=operator, left=left, right=right) if operator in _BINARY:
            first, second = size(context, left), size(context, right)
            return replace(expression, left=first, right=second, type=_applied(_BINARY[operator], first, second))
        case ast.Conditional(condition=condition, then=then, otherwise=otherwise):
            parts = [size(context, part) for part in (condition, then, otherwise)]
            return ast.Conditional(
                span=expression.span,
                condition=parts[0],
                then=parts[1],
                otherwise=parts[2],
                type=_applied("select", *parts),
            )
        case ast.Call():
            return _call(context, expression)
        case ast.Cast():
            message, hint = "a size has no element type, so it takes no cast", "use `floor`, `ceil` or `round`"
            return context.wrong(expression, "E0116", message, hint=hint)
    return _no_size(context, expression)


def value_of(expression: ast.Expression) -> Size | None:
    """The symbolic value of a typed size; None where the checker has reported an error."""
    return expression.type.value if isinstance(expression.type, SizeType) else None


def mentions_size(context: Context, expression: ast.Expression) -> bool:
    """Whether a host expression depends on a shape or a named size, so that it is one only as a whole."""
    match expression:
        case ast.Name(name=name):
            symbol = context.scope.find(name)
            return symbol is not None and symbol.kind in ("size", "dimension")
        case ast.Unary(operand=operand):
            return mentions_size(context, operand)
        case ast.Binary(left=left, right=right):
            return mentions_size(context, left) or mentions_size(context, right)
        case ast.Conditional(condition=condition, then=then, otherwise=otherwise):
            return any(mentions_size(context, part) for part in (condition, then, otherwise))
        case ast.Call(function="blocks"):
            return True
        case ast.Call(function="len", arguments=(argument,)):
            with context.quiet() as problems:
                return value_of(_length(context, expression, argument.value)) is not None and not problems
        case ast.Call(function=function, arguments=arguments) if function in FUNCTIONS:
            return any(mentions_size(context, argument.value) for argument in arguments)
    return False


def _applied(operation: str, *operands: ast.Expression) -> SizeType | Poison:
    values = [value_of(operand) for operand in operands]
    known = [value for value in values if value is not None]
    return SizeType(apply(operation, *known)) if len(known) == len(values) else Poison()


def _name(context: Context, name: ast.Name) -> ast.Expression:
    symbol = context.scope.find(name.name)
    if symbol is None:
        known = context.scope.names()
        message = f"unknown name `{name.name}`"
        return context.wrong(name, "E0101", message, hint=did_you_mean(name.name, known))
    symbol.used = True
    if isinstance(symbol.type, SizeType):
        return replace(name, type=symbol.type)
    if symbol.kind == "parameter":
        return replace(name, type=SizeType(Var(name.name)))
    if isinstance(symbol.type, Poison):
        return replace(name, type=symbol.type)
    message = f"a size depends on shapes and parameters only, got `{name.name}`, {WORDS[symbol.kind]}"
    return context.wrong(name, "E0116", message)


def _call(context: Context, call: ast.Call) -> ast.Expression:
    arity = {"len": 1, "blocks": 1, **FUNCTIONS}.get(call.function)
    if arity is None:
        return _no_size(context, call)
    if len(call.arguments) != arity or any(argument.name for argument in call.arguments):
        message = f"`{call.function}` in a size needs {arity} operand{'s'[: arity > 1]}, got {len(call.arguments)}"
        return context.wrong(call, "E0105", message)
    if call.function == "len":
        return _length(context, call, call.arguments[0].value)
    operands = [size(context, argument.value) for argument in call.arguments]
    arguments = tuple(replace(a, value=o) for a, o in zip(call.arguments, operands, strict=True))
    if call.function == "blocks":
        count = value_of(operands[0])
        type_ = Poison() if count is None else SizeType(apply("ceil", apply("div", Var("numel"), count)))
    else:
        type_ = _applied(call.function, *operands)
    return replace(call, arguments=arguments, type=type_)


def _length(context: Context, call: ast.Call, array: ast.Expression) -> ast.Expression:
    """`len(x)` of an array of known length."""
    typed = context.value(context, array)
    argument = replace(call.arguments[0], value=typed)
    known = replace(call, arguments=(argument,), type=Poison())
    match typed.type:
        case ArrayType(shape=(*_, last)):
            if not isinstance(last, Bounded):
                return replace(known, type=SizeType(last))
            message = f"a size depends on shapes and parameters only, but `{array.span.text}` is as long as data say"
            return context.wrong(known, "E0116", message)
        case Poison():
            return known
    return context.wrong(known, "E0106", f"`len` needs an array, got {typed.type}")


def _no_size(context: Context, expression: ast.Expression) -> ast.Expression:
    what = f"`{expression.span.text}`" if len(expression.span.text) <= 40 else "this"
    return context.wrong(expression, "E0116", f"a size depends on shapes and parameters only, got {what}")
