"""What loading fixes: folded parameters, the environment of size expressions, the chosen payload types."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from compll.diagnostics import CompllError, InternalError
from compll.dsl import ast
from compll.dsl.facts import walk
from compll.dsl.types import SizeType
from compll.sizes import Apply, Num, Size, Var, apply, evaluate

_OPERATORS = {
    "+": "add", "-": "sub", "*": "mul", "/": "div", "%": "rem", "<<": "shl", ">>": "shr", "<": "lt", "<=": "le",
    ">": "gt", ">=": "ge", "==": "eq", "!=": "ne", "&&": "and", "||": "or",
}  # fmt: skip


def static_parameters(module: ast.Module) -> frozenset[str]:
    """The parameters that types, loop limits, traits or the feedback line use: fixed when a program is loaded."""
    compressor = module.compressor
    declared = {p.name for p in compressor.params}
    used: set[str] = set()
    for expression in _fixed_expressions(module):
        used |= {n.name for n in walk(expression) if isinstance(n, ast.Name)}
    return frozenset(declared & used)


def _fixed_expressions(module: ast.Module) -> Iterator[ast.Expression]:
    compressor = module.compressor
    conditions = [t.condition for t in compressor.traits]
    conditions += [compressor.feedback.condition] if compressor.feedback else []
    yield from (c for c in conditions if c is not None)
    for node in walk(compressor):
        match node:
            case ast.TypeName(width=width) if width is not None:
                yield width
            case ast.Repeat(limit=limit):
                yield limit


def size_expression(expression: ast.Expression) -> Size:
    """An expression of parameters, sizes and literals as a Size."""
    match expression:
        case ast.ExpressionNode(type=SizeType(value)):
            return value
        case ast.Number(value=number):
            return Num(number)
        case ast.Boolean(value=flag):
            return Num(float(flag))
        case ast.Name(name=name):
            return Var(name)
        case ast.Unary(operator="-", operand=operand):
            return apply("neg", size_expression(operand))
        case ast.Unary(operator="!", operand=operand):
            return apply("not", size_expression(operand))
        case ast.Binary(operator=operator, left=left, right=right) if operator in _OPERATORS:
            return apply(_OPERATORS[operator], size_expression(left), size_expression(right))
        case ast.Conditional(condition=condition, then=then, otherwise=otherwise):
            return apply("select", *(size_expression(e) for e in (condition, then, otherwise)))
        case ast.Call(function=function, arguments=arguments):
            return Apply(function, tuple(size_expression(a.value) for a in arguments))
        case _:
            raise InternalError(f"line {expression.span.line}: no size")


def holds(condition: ast.Expression | None, values: Mapping[str, float]) -> bool:
    """Whether a condition on sizes and parameters holds; no condition always does."""
    return condition is None or bool(evaluate(size_expression(condition), values))


def environment(
    module: ast.Module, shape: tuple[int, ...], values: Mapping[str, float | int | bool]
) -> dict[str, float]:
    """The variables of size expressions for a gradient of `shape`: `numel`, its dimensions' names, all parameters and
    the program's named sizes in order of definition."""
    numel = math.prod(shape)
    result = {"numel": float(numel), **{name: float(value) for name, value in values.items()}}
    extents = module.compressor.encode.type.shape
    names = [e.size.name if isinstance(e.size, ast.Name) else None for e in extents]
    rows = shape[0] if len(shape) >= 2 else 1
    dimensions = (numel,) if len(extents) == 1 else (rows, numel // rows if rows else 0)
    result.update({name: float(d) for name, d in zip(names, dimensions) if name is not None and name not in values})
    for statement in module.compressor.encode.body:
        if isinstance(statement, ast.SizeDefinition):
            result[statement.name] = _defined(statement, result)
    return result


def _defined(definition: ast.SizeDefinition, variables: Mapping[str, float]) -> float:
    try:
        return evaluate(size_expression(definition.value), variables)
    except CompllError as problem:
        raise CompllError(f"size `{definition.name}`: {problem.diagnostics[0].message}") from None


def choose_alternatives(module: ast.Module, variables: Mapping[str, float]) -> tuple[int, ...]:
    """For each conditional payload field in order, the first alternative whose condition holds."""
    return tuple(
        next(i for i, (condition, _) in enumerate(field.alternatives) if holds(condition, variables))
        for field in module.compressor.payload
        if len(field.alternatives) > 1
    )
