"""What operators and elementwise functions share: whole numbers that adapt, one element type, one shape."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from compll.dsl import ast
from compll.dsl.check_sizes import mentions_size
from compll.dsl.check_types import computes_as
from compll.dsl.context import Context
from compll.dsl.types import ArrayType, Dimension, ElementType, Poison, Type
from compll.dtypes import BOOL, F32, F32_OVERFLOW, I32, U32, DType


def scalar(element: ElementType) -> ArrayType:
    return ArrayType(element)


def is_array(type_: Type | None) -> bool:
    return isinstance(type_, ArrayType) and bool(type_.shape)


def described(type_: Type | None) -> str:
    """A type in a message."""
    return str(type_) if type_ is not None else "nothing"


# --- whole numbers ---------------------------------------------------------------------------------------------------


def adapts(expression: ast.Expression) -> bool:
    """Whether an expression is made of whole numbers only and so takes the type that its context needs."""
    match expression:
        case ast.Number(is_float=is_float):
            return not is_float
        case ast.Unary(operator="-" | "~", operand=operand):
            return adapts(operand)
        case ast.Binary(operator="+" | "-" | "*" | "<<" | ">>" | "&" | "|" | "^", left=left, right=right):
            return adapts(left) and adapts(right)
        case ast.Conditional(then=then, otherwise=otherwise):
            return adapts(then) and adapts(otherwise)
    return False


def number(context: Context, literal: ast.Number, expected: ElementType | None) -> ast.Expression:
    """A number in the type of its context: f32 unless it is whole; a whole one is i32 without a context."""
    target = expected if expected is not None and expected != BOOL else I32
    if literal.is_float or computes_as(target).kind == "float":
        return _float(context, literal, F32 if literal.is_float else computes_as(target))
    if isinstance(target, DType) and not target.limits[0] <= literal.value <= target.limits[1]:
        low, high = target.limits
        hint = "write `u32(...)` around it" if target == I32 and 0 < literal.value <= U32.limits[1] else ""
        message = f"{literal.value:.0f} does not fit {target}, whose values are {low} to {high}"
        return context.wrong(literal, "E0108", message, hint=hint)
    return replace(literal, type=scalar(computes_as(target)))


def _float(context: Context, literal: ast.Number, target: DType) -> ast.Expression:
    if F32_OVERFLOW <= abs(literal.value) < float("inf"):
        return context.wrong(literal, "E0108", f"{literal.span.text} does not fit f32, whose values reach 3.4e38")
    return replace(literal, type=scalar(target))


# --- operands --------------------------------------------------------------------------------------------------------


def operands(
    context: Context, expressions: Sequence[ast.Expression], expected: ElementType | None = None
) -> list[ast.Expression]:
    """The operands typed; whole numbers take the computing type of the first that is none, else the expected one. So do
    sizes, which are an error, in what is said of them."""
    typed = [None if adapts(e) or mentions_size(context, e) else context.value(context, e) for e in expressions]
    elements = [e.type.element for e in typed if e is not None and isinstance(e.type, ArrayType)]
    numeric = [computes_as(element) for element in elements if element != BOOL]
    wanted = numeric[0] if numeric else expected
    return [t or context.value(context, e, wanted) for t, e in zip(typed, expressions, strict=True)]


def common_element(context: Context, what: str, parts: Sequence[ast.Expression], span: ast.Node) -> DType | None:
    """The one computing type of all operands; None after a report or where one is poisoned."""
    elements = []
    for part in parts:
        if isinstance(part.type, Poison):
            return None
        if not isinstance(part.type, ArrayType):
            context.report("E0106", f"{what} needs numbers, got {described(part.type)}", part.span)
            return None
        elements.append(computes_as(part.type.element))
    first = elements[0]
    for other, part in zip(elements[1:], parts[1:], strict=True):
        if other != first:
            message = f"{what} needs operands of one type, got {first} and {other}"
            context.report("E0109", message, span.span, hint=_cast_hint(first, other, parts[0], part))
            return None
    return first


def _cast_hint(first: DType, other: DType, left: ast.Expression, right: ast.Expression) -> str:
    if BOOL in (first, other):
        return ""
    target = F32 if F32 in (first, other) else first
    text = (left if first != target else right).span.text
    return f"convert it: `{target}({text})`" if len(text) <= 30 else f"convert one with `{target}(...)`"


def broadcast(context: Context, parts: Sequence[ast.Expression], span: ast.Node) -> tuple[Dimension, ...] | None:
    """The shape of an elementwise result: scalars and row values are repeated. None after a report."""
    arrays = [p for p in parts if isinstance(p.type, ArrayType) and p.type.shape]
    if not arrays:
        return ()
    widest = max(arrays, key=lambda part: len(_shape(part)))
    shape = _shape(widest)
    for part in arrays:
        row = len(shape) == 2 and len(_shape(part)) == 1 and context.same_dimension(_shape(part)[0], shape[0])
        if not (row or context.same_shape(_shape(part), shape)):
            pair = sorted((part, widest), key=lambda p: p.span.start)
            shown = " and ".join(f"{_named(p)}{described(p.type)}" for p in pair)
            context.report("E0110", f"lengths do not agree: {shown}", span.span)
            return None
    return shape


def _shape(part: ast.Expression) -> tuple[Dimension, ...]:
    return part.type.shape if isinstance(part.type, ArrayType) else ()


def _named(part: ast.Expression) -> str:
    return f"`{part.span.text}` is " if len(part.span.text) <= 30 else ""


def lifted(
    context: Context,
    node: ast.Expression,
    what: str,
    parts: Sequence[ast.Expression],
    accepts: Callable[[DType], bool],
    needs: str,
    result: DType | None = None,
) -> Type:
    """The type of an elementwise operation on operands of one type; `result` where it is not that of the operands."""
    element = common_element(context, what, parts, node)
    if element is None:
        return Poison()
    if not accepts(element):
        wrong = next(p for p in parts)
        hint = f"convert it: `f32({wrong.span.text})`" if needs == "f32" and element.kind in ("int", "uint") else ""
        return context.report("E0106", f"{what} needs {needs}, got {described(wrong.type)}", wrong.span, hint=hint)
    shape = broadcast(context, parts, node)
    return Poison() if shape is None else ArrayType(result or element, shape)


def is_number(element: DType) -> bool:
    return element.kind != "bool"


def is_float(element: DType) -> bool:
    return element == F32


def is_integer(element: DType) -> bool:
    return element.kind in ("int", "uint")


def is_bool(element: DType) -> bool:
    return element == BOOL


def is_u32(element: DType) -> bool:
    return element == U32


def anything(element: DType) -> bool:
    return True
