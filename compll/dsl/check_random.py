"""The rules of random draws: counter-based, so each is shared by all ranks or private to one."""

from __future__ import annotations

from compll.dsl import ast
from compll.dsl.bound import Bound, Rule, array_operand, dimension_operands, flag_option, size_operand
from compll.dsl.check_sizes import value_of
from compll.dsl.context import Context, Draw
from compll.dsl.facts import is_shared
from compll.dsl.types import ArrayType, Bounded, Dimension, Indices, Poison, Type
from compll.dtypes import F32, U32
from compll.sizes import Size


def _note(context: Context, bound: Bound, extents: tuple[Dimension, ...]) -> None:
    """Keeps shared draws in order, and refuses a private one in decode."""
    if is_shared(bound.call):
        known: tuple[Size, ...] = tuple(e for e in extents if not isinstance(e, Bounded))
        drawn = context.draws.setdefault(context.place, [])
        if not any(draw is not None and draw.call.span == bound.call.span for draw in drawn):
            drawn.append(Draw(bound.call, known))
    elif context.place == "decode":
        hint = "" if bound.call.function == "sample" else "add `shared = true`, here and in encode"
        message = f"`{bound.call.function}` in decode must be shared: the receiver cannot repeat a private draw"
        context.report("E0124", message, bound.call.span, hint=hint)


def _generated(context: Context, bound: Bound) -> ast.Expression:
    sizes, shape = dimension_operands(context, bound)
    options = {**flag_option(context, bound, "shared"), **_bits(context, bound)}
    if shape is None:
        return bound.finish(sizes, options, type_=Poison())
    _note(context, bound, shape)
    return bound.finish(sizes, options, type_=ArrayType(F32, shape))


def _bits(context: Context, bound: Bound) -> dict[str, ast.Expression]:
    bits = bound.option("bits")
    if bits is None:
        return {}
    if not (isinstance(bits, ast.Number) and bits.value in (16, 32)):
        context.report("E0106", f"`bits` needs 16 or 32, got `{bits.span.text}`", bits.span)
        return {}
    return {"bits": context.value(context, bits)}


def _choose(context: Context, bound: Bound) -> ast.Expression:
    n, k = size_operand(context, bound, "n"), size_operand(context, bound, "k")
    options = flag_option(context, bound, "shared")
    extent, count = value_of(n), value_of(k)
    if extent is None or count is None:
        return bound.finish([n, k], options, type_=Poison())
    _note(context, bound, (extent, count))
    type_: Type = ArrayType(U32, (count,), Indices(extent, False))
    return bound.finish([n, k], options, type_=type_)


def _sample(context: Context, bound: Bound) -> ast.Expression:
    typed, array = array_operand(context, bound, "x", rank=1, fixed=True)
    m = size_operand(context, bound, "m")
    count = value_of(m)
    _note(context, bound, ())
    if array is None or count is None:
        return bound.finish([typed, m], type_=Poison())
    return bound.finish([typed, m], type_=ArrayType(array.element, (count,)))


RANDOM_RULES: dict[str, Rule] = {
    "random.uniform": _generated,
    "random.normal": _generated,
    "random.choose": _choose,
    "sample": _sample,
}
