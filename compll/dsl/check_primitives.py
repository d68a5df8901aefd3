"""Calls of primitives: arguments sorted out by the signature, then one rule for each, in
`check_arrays`, `check_random`, `check_reductions`, `check_selection` or here.

In the typed tree a call has its operands in order and without names, and its options by name; an option that the
program leaves out is left out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from compll.dsl import ast
from compll.dsl.bound import Bound, Rule
from compll.dsl.check_arrays import ARRAY_RULES
from compll.dsl.check_operators import (  # fmt: skip
    anything,
    broadcast,
    is_bool,
    is_float,
    is_number,
    is_u32,
    lifted,
    operands,
)
from compll.dsl.check_random import RANDOM_RULES
from compll.dsl.check_reductions import REDUCTION_RULES
from compll.dsl.check_selection import SELECTION_RULES
from compll.dsl.check_sizes import size
from compll.dsl.context import Context
from compll.dsl.facts import is_elementwise, walk
from compll.dsl.scope import did_you_mean
from compll.dsl.types import ArrayType, ElementType, Poison, Type
from compll.dtypes import BOOL, F32, U32, DType
from compll.primitives import PRIMITIVES, Formal, PrimitiveSpec


def primitive(context: Context, call: ast.Call, expected: ElementType | None = None) -> ast.Expression:
    """The call typed, its arguments in canonical order; poisoned after a report."""
    bound = _bind(context, call, PRIMITIVES[call.function], expected)
    if bound is None or not _allowed(context, call):
        return replace(call, type=Poison())
    before = context.in_lambda
    context.in_lambda = before and is_elementwise(call)
    typed = RULES[call.function](context, bound)
    context.in_lambda = before
    return typed


def _allowed(context: Context, call: ast.Call) -> bool:
    """Whether such a primitive may stand here."""
    pattern = PRIMITIVES[call.function].pattern
    name = f"`{call.function}`"
    if pattern in ("random", "collective") and context.in_repeat:
        context.report("E0125", f"{name} must not stand inside `repeat`", call.span, hint="do it before the loop")
    elif pattern in ("random", "collective") and context.in_lambda:
        context.report("E0125", f"{name} must not stand inside a function of elements", call.span)
    elif pattern == "collective" and context.place != "encode" and context.place != "fn":
        context.report("E0125", f"{name} may stand in encode only", call.span)
    elif context.in_lambda and not is_elementwise(call) and _uses_element(context, call):
        message = f"{name} works on whole arrays and cannot run on each element"
        context.report("E0125", message, call.span)
    else:
        return True
    return False


def _uses_element(context: Context, call: ast.Call) -> bool:
    names = {node.name for node in walk(call) if isinstance(node, ast.Name)}
    return any((symbol := context.scope.find(name)) and symbol.kind == "element" for name in names)


# --- arguments -------------------------------------------------------------------------------------------------------


def _bind(context: Context, call: ast.Call, spec: PrimitiveSpec, expected: ElementType | None) -> Bound | None:
    """The arguments by parameter; None after a report of arity or names."""
    formals = spec.formals()
    variadic = next((f.name for f in formals if f.variadic), None)
    given: dict[str, list[ast.Expression]] = {variadic: []} if variadic else {}
    slots = [f for f in formals if not (variadic and f.option)]
    for argument in call.arguments:
        name = argument.name or _next_slot(slots, given)
        if name is None or (argument.name and name not in {f.name for f in formals}):
            _report_argument(context, call, spec, argument)
            return None
        if name in given and name != variadic:
            context.report("E0105", f"`{name}` of `{spec.name}` is given twice", argument.span)
            return None
        given.setdefault(name, []).append(argument.value)
    missing = [f.name for f in formals if f.required and f.name not in given]
    if missing:
        hint = f"add `{missing[0]} = ...`: {_WHY_BOUND}" if missing[0] == "at_most" else ""
        code = "E0115" if missing[0] == "at_most" else "E0105"
        message = f"`{spec.signature}` needs {' and '.join(f'`{name}`' for name in missing)}"
        context.report(code, message, call.span, hint=hint)
        return None
    return Bound(call=call, formals=formals, given=given, expected=expected)


_WHY_BOUND = "the size of a payload must not depend on data"


def _next_slot(slots: list[Formal], given: dict[str, list[ast.Expression]]) -> str | None:
    return next((slot.name for slot in slots if slot.variadic or slot.name not in given), None)


def _report_argument(context: Context, call: ast.Call, spec: PrimitiveSpec, argument: ast.Argument) -> None:
    if argument.name is None:
        count = len(call.arguments)
        context.report("E0105", f"`{spec.signature}` takes no {_ordinal(count)} argument", argument.span)
        return
    hint = did_you_mean(argument.name, [f.name for f in spec.formals()])
    context.report("E0105", f"`{spec.signature}` has no argument `{argument.name}`", argument.span, hint=hint)


def _ordinal(count: int) -> str:
    return {1: "first", 2: "second", 3: "third"}.get(count, f"{count}th")


# --- elementwise rules -----------------------------------------------------------------------------------------------


def _elementwise(accepts: Callable[[DType], bool], needs: str, result: DType | None = None) -> Rule:
    wanted = {"f32": F32, "u32": U32}.get(needs)

    def rule(context: Context, bound: Bound) -> ast.Expression:
        typed = operands(context, bound.operands(), wanted or bound.expected)
        what = f"`{bound.call.function}`"
        return bound.finish(typed, type_=lifted(context, bound.call, what, typed, accepts, needs, result))

    return rule


def _where(context: Context, bound: Bound) -> ast.Expression:
    condition, then, otherwise = bound.operands()
    test = context.value(context, condition)
    branches = operands(context, [then, otherwise], bound.expected)
    first = lifted(context, bound.call, "a condition", [test], is_bool, "bool")
    second = lifted(context, bound.call, "`where`", branches, anything, "")
    type_: Type = Poison()
    if isinstance(first, ArrayType) and isinstance(second, ArrayType):
        shape = broadcast(context, [test, *branches], bound.call)
        type_ = Poison() if shape is None else ArrayType(second.element, shape)
    return bound.finish([test, *branches], type_=type_)


def _extreme(context: Context, bound: Bound) -> ast.Expression:
    """`min` and `max`: elementwise of two operands, a reduction of one."""
    if "y" not in bound.given:
        return REDUCTION_RULES[bound.call.function](context, bound)
    if "axis" in bound.given:
        message = f"`{bound.call.function}` of two operands takes no `axis`"
        return context.wrong(bound.call, "E0105", message)
    return _elementwise(is_number, "numbers")(context, bound)


def _blocks(context: Context, bound: Bound) -> ast.Expression:
    return size(context, bound.call)


RULES: dict[str, Rule] = {
    **ARRAY_RULES,
    **REDUCTION_RULES,
    **SELECTION_RULES,
    **RANDOM_RULES,
    **dict.fromkeys(("abs", "sign", "clamp"), _elementwise(is_number, "numbers")),
    **dict.fromkeys(
        ("floor", "ceil", "round", "trunc", "sqrt", "exp", "log", "exp2", "log2", "pow", "fma"),
        _elementwise(is_float, "f32"),
    ),
    **dict.fromkeys(("is_finite", "is_nan"), _elementwise(is_float, "f32", BOOL)),
    "bits": _elementwise(is_float, "f32", U32),
    "from_bits": _elementwise(is_u32, "u32", F32),
    **dict.fromkeys(("popcount", "leading_zeros"), _elementwise(is_u32, "u32")),
    "where": _where,
    "min": _extreme,
    "max": _extreme,
    "blocks": _blocks,
}
