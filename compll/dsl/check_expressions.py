"""Expressions as values: names, operators, casts, gathers, calls. Sizes and primitives have modules of their own."""

from __future__ import annotations

from dataclasses import replace

from compll.dsl import ast
from compll.dsl.check_functions import call_function
from compll.dsl.check_operators import (  # fmt: skip
    anything,
    broadcast,
    described,
    is_bool,
    is_integer,
    is_number,
    lifted,
    number,
    operands,
)
from compll.dsl.check_primitives import primitive
from compll.dsl.check_sizes import mentions_size, size
from compll.dsl.check_types import computes_as, is_unsigned, resolve_element
from compll.dsl.context import Context
from compll.dsl.scope import did_you_mean
from compll.dsl.types import ArrayType, ElementType, Indices, Poison, RecordType, SizeType, Type
from compll.dtypes import BOOL, F32, NAMED, U32
from compll.primitives import PRIMITIVES

_ARITHMETIC = ("+", "-", "*", "/", "%")
_BITS = ("&", "|", "^", "<<", ">>")
_ORDER = ("<", "<=", ">", ">=")


def value(context: Context, expression: ast.Expression, expected: ElementType | None = None) -> ast.Expression:
    """The expression typed as a value: an array, a scalar or a record, or poisoned with one report."""
    typed = _typed(context, expression, expected)
    if isinstance(typed.type, SizeType):
        wanted = F32 if expected is None or expected == BOOL else computes_as(expected)
        hint = f"convert it: `{wanted}({expression.span.text})`"
        return context.wrong(typed, "E0117", f"`{expression.span.text}` is a size, not a value", hint=hint)
    return typed


def _typed(context: Context, expression: ast.Expression, expected: ElementType | None) -> ast.Expression:
    match expression:
        case ast.Number():
            return number(context, expression, expected)
        case ast.Boolean():
            return replace(expression, type=ArrayType(BOOL))
        case ast.Name():
            return _name(context, expression)
        case ast.Member():
            return _member(context, expression)
        case ast.Element():
            return _element(context, expression)
        case ast.Unary():
            return _unary(context, expression, expected)
        case ast.Binary():
            return _binary(context, expression, expected)
        case ast.Conditional():
            return _conditional(context, expression, expected)
        case ast.Cast():
            return _cast(context, expression)
        case ast.Call():
            return _call(context, expression, expected)
        case ast.Lambda():
            message = "a function is no value; it can be an argument of `map`, `filter`, `reduce`, `scan` or `by =`"
            return context.wrong(expression, "E0128", message)


def _name(context: Context, name: ast.Name) -> ast.Expression:
    symbol = context.scope.find(name.name)
    if symbol is None:
        if name.name in PRIMITIVES or name.name in context.functions:
            return context.wrong(name, "E0128", f"`{name.name}` is a function, not a value", hint="call it")
        hint = did_you_mean(name.name, context.scope.names())
        return context.wrong(name, "E0101", f"unknown name `{name.name}`", hint=hint)
    symbol.used = True
    if symbol.kind == "state" and context.place == "decode":
        message = f"decode must not use state `{name.name}`: it may depend on the payload and parameters only"
        return context.wrong(name, "E0122", message)
    if symbol.kind == "state" and context.place in ("fn", "initial"):
        where = "a `fn`" if context.place == "fn" else "an initial value"
        message = f"{where} must not use state `{name.name}`"
        return context.wrong(name, "E0122", message, hint="give it as an argument" if context.place == "fn" else "")
    return replace(name, type=symbol.type)


def _member(context: Context, member: ast.Member) -> ast.Expression:
    record = value(context, member.record)
    member = replace(member, record=record)
    if isinstance(record.type, Poison):
        return replace(member, type=Poison())
    if not isinstance(record.type, RecordType):
        message = f"`.{member.name}` needs a record, got {described(record.type)}"
        return context.wrong(member, "E0106", message)
    types = dict(record.type.fields)
    if member.name not in types:
        known = ", ".join(f"`{name}`" for name in types)
        message = f"no field `{member.name}` in `{record.span.text}`, which has {known or 'none'}"
        return context.wrong(member, "E0114", message, hint=did_you_mean(member.name, types))
    if isinstance(record, ast.Name) and _is_payload(context, record.name):
        context.fields_read.add(member.name)
        if member.name in context.poisoned_fields:
            return replace(member, type=Poison())
    return replace(member, type=types[member.name])


def _is_payload(context: Context, name: str) -> bool:
    symbol = context.scope.find(name)
    return symbol is not None and symbol.kind == "payload"


def _element(context: Context, element: ast.Element) -> ast.Expression:
    array = value(context, element.array)
    index = value(context, element.index, U32 if mentions_size(context, element.index) else None)
    return replace(element, array=array, index=index, type=_gathered(context, element, array.type, index.type))


def _gathered(context: Context, element: ast.Element, array: Type | None, index: Type | None) -> Type:
    if isinstance(array, Poison) or isinstance(index, Poison):
        return Poison()
    if not isinstance(array, ArrayType) or not array.shape:
        message = f"`[...]` reads from an array, got {described(array)}"
        return context.report("E0106", message, element.array.span)
    if not isinstance(index, ArrayType) or not is_integer(computes_as(index.element)):
        message = f"an index must be a whole number, got {described(index)}"
        return context.report("E0106", message, element.index.span)
    rows_agree = len(array.shape) < 2 or (
        len(index.shape) == 2 and context.same_dimension(index.shape[0], array.shape[0])
    )
    if rows_agree and len(index.shape) <= len(array.shape):
        return ArrayType(array.element, index.shape)
    needs = "indices for each row" if len(array.shape) == 2 else "one index or a list of them"
    message = f"{described(array)} is read with {needs}, got {described(index)}"
    return context.report("E0110", message, element.span)


def _unary(context: Context, unary: ast.Unary, expected: ElementType | None) -> ast.Expression:
    if unary.operator == "-" and isinstance(unary.operand, ast.Number):
        return number(context, replace(unary.operand, value=-unary.operand.value, span=unary.span), expected)
    operand = value(context, unary.operand, expected)
    match unary.operator:
        case "-":
            type_ = lifted(context, unary, "`-`", [operand], lambda e: e.kind in ("float", "int"), "f32 or i32")
        case "!":
            type_ = lifted(context, unary, "`!`", [operand], is_bool, "bool")
        case _:
            type_ = lifted(context, unary, f"`{unary.operator}`", [operand], is_integer, "an integer")
    return replace(unary, operand=operand, type=type_)


def _binary(context: Context, binary: ast.Binary, expected: ElementType | None) -> ast.Expression:
    operator = binary.operator
    comparing = operator in _ORDER or operator in ("==", "!=")
    wanted = None if comparing or expected is None else computes_as(expected)
    left, right = parts = operands(context, [binary.left, binary.right], wanted)
    what = f"`{operator}`"
    if operator in _ARITHMETIC:
        type_ = lifted(context, binary, what, parts, is_number, "numbers")
    elif operator in _BITS:
        type_ = lifted(context, binary, what, parts, is_integer, "integers")
    elif operator in _ORDER:
        type_ = lifted(context, binary, what, parts, is_number, "numbers", BOOL)
    elif comparing:
        type_ = lifted(context, binary, what, parts, anything, "numbers or bool", BOOL)
    else:
        type_ = lifted(context, binary, what, parts, is_bool, "bool", BOOL)
    return replace(binary, left=left, right=right, type=type_)


def _conditional(context: Context, choice: ast.Conditional, expected: ElementType | None) -> ast.Expression:
    condition = value(context, choice.condition)
    then, otherwise = operands(context, [choice.then, choice.otherwise], expected)
    branches = lifted(context, choice, "a choice", [then, otherwise], anything, "")
    tested = lifted(context, choice, "a condition", [condition], is_bool, "bool")
    type_: Type = Poison()
    if isinstance(branches, ArrayType) and isinstance(tested, ArrayType):
        shape = broadcast(context, [condition, then, otherwise], choice)
        type_ = Poison() if shape is None else ArrayType(branches.element, shape)
    return ast.Conditional(span=choice.span, condition=condition, then=then, otherwise=otherwise, type=type_)


def _cast(context: Context, cast: ast.Cast) -> ast.Expression:
    name, element = resolve_element(context, cast.element)
    if mentions_size(context, cast.operand):
        operand = size(context, cast.operand)
        known = element is not None and isinstance(operand.type, SizeType)
        type_ = ArrayType(element) if element is not None and known else Poison()
        return replace(cast, element=name, operand=operand, type=type_)
    operand = value(context, cast.operand, element)
    cast = replace(cast, element=name, operand=operand)
    if element is None or isinstance(operand.type, Poison):
        return replace(cast, type=Poison())
    if not isinstance(operand.type, ArrayType):
        return context.wrong(cast, "E0106", f"a cast needs numbers, got {described(operand.type)}")
    if element == BOOL and operand.type.element != BOOL:
        message = f"no cast from {operand.type.element} to bool"
        return context.wrong(cast, "E0106", message, hint=f"compare it: `{operand.span.text} != 0`")
    return replace(cast, type=ArrayType(element, operand.type.shape, _kept_indices(operand.type, element)))


def _kept_indices(operand: ArrayType, element: ElementType) -> Indices | None:
    return operand.indices if is_unsigned(element) and is_unsigned(operand.element) else None


def _call(context: Context, call: ast.Call, expected: ElementType | None) -> ast.Expression:
    if call.function in context.functions:
        return call_function(context, call)
    if call.function in PRIMITIVES:
        return primitive(context, call, expected)
    for argument in call.arguments:
        if not isinstance(argument.value, ast.Lambda):
            with context.quiet():
                value(context, argument.value)
    if call.function in NAMED:
        return context.wrong(call, "E0105", f"a cast needs one operand, got {len(call.arguments)}")
    if context.scope.find(call.function):
        return context.wrong(call, "E0102", f"`{call.function}` is no function")
    hint = did_you_mean(call.function, [*PRIMITIVES, *context.functions, *NAMED])
    return context.wrong(call, "E0102", f"unknown function `{call.function}`", hint=hint)
