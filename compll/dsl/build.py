"""Nodes of the syntax tree from the rules of `grammar.lark`, one function per rule. Knows no parser.

`BUILDERS[rule](span, children)` gets the already built children of a rule in source order: nodes, `Word`s for the
tokens that the grammar keeps, tuples for lists. What a file may hold only once is checked here, since a node has only
one place for it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from compll.diagnostics import CompllError, Diagnostic, Span
from compll.dsl import ast
from compll.dtypes import NAMED

Build = Callable[[Span, list[Any]], Any]
Kind = TypeVar("Kind")

BUILDERS: dict[str, Build] = {}

_RESERVED = frozenset("let return if else true false inf uint".split())


@dataclass(frozen=True, slots=True)
class Word:
    """A token with meaning: a name, a number, an operator."""

    text: str
    span: Span


def _builds(*rules: str) -> Callable[[Build], Build]:
    def register(build: Build) -> Build:
        BUILDERS.update(dict.fromkeys(rules, build))
        return build

    return register


def _of(children: Sequence[Any], kind: type[Kind]) -> tuple[Kind, ...]:
    return tuple(child for child in children if isinstance(child, kind))


def _second(children: list[Any]) -> Any:
    return children[1] if len(children) > 1 else None


# --- words and expressions -------------------------------------------------------------------------------------------


@_builds("name")
def _name(span: Span, children: list[Any]) -> Word:
    text = children[0].text
    if text in _RESERVED:  # the lexer takes it for a name where the grammar has no place for the keyword
        raise CompllError(_error("E0001", f"`{text}` is reserved and names nothing", span))
    return Word(text, span)


@_builds("number")
def _number(span: Span, children: list[Any]) -> ast.Number:
    text = children[0].text.replace("_", "")
    based = text[:2].lower() in ("0x", "0b")
    try:
        value = float(int(text, 0)) if based else float(text)
    except OverflowError:
        value = math.inf
    if math.isinf(value):
        shown = text if len(text) <= 40 else f"{text[:20]}..."
        raise CompllError(_error("E0005", f"number {shown} is too large", span, hint="infinity is written `inf`"))
    return ast.Number(span=span, value=value, is_float=not based and any(c in text for c in ".eE"))


@_builds("infinity")
def _infinity(span: Span, children: list[Any]) -> ast.Number:
    return ast.Number(span=span, value=math.inf, is_float=True)


@_builds("true", "false")
def _boolean(span: Span, children: list[Any]) -> ast.Boolean:
    return ast.Boolean(span=span, value=span.text == "true")


@_builds("reference")
def _reference(span: Span, children: list[Any]) -> ast.Name:
    return ast.Name(span=span, name=children[0].text)


@_builds("member")
def _member(span: Span, children: list[Any]) -> ast.Member:
    return ast.Member(span=span, record=children[0], name=children[1].text)


@_builds("gather")
def _gather(span: Span, children: list[Any]) -> ast.Element:
    return ast.Element(span=span, array=children[0], index=children[1])


@_builds("unary")
def _unary(span: Span, children: list[Any]) -> ast.Unary:
    return ast.Unary(span=span, operator=children[0].text, operand=children[1])


@_builds("binary")
def _binary(span: Span, children: list[Any]) -> ast.Binary:
    return ast.Binary(span=span, operator=children[1].text, left=children[0], right=children[2])


@_builds("choice")
def _choice(span: Span, children: list[Any]) -> ast.Conditional:
    return ast.Conditional(span=span, condition=children[0], then=children[1], otherwise=children[2])


@_builds("lambda")
def _lambda(span: Span, children: list[Any]) -> ast.Lambda:
    names = tuple(word.text for word in _of(children, Word))
    return ast.Lambda(span=span, parameters=names, body=children[-1])


@_builds("positional")
def _positional(span: Span, children: list[Any]) -> ast.Argument:
    return ast.Argument(span=span, name=None, value=children[0])


@_builds("named", "field_value")
def _named(span: Span, children: list[Any]) -> ast.Argument:
    return ast.Argument(span=span, name=children[0].text, value=children[1])


@_builds("call")
def _call(span: Span, children: list[Any]) -> ast.Call | ast.Cast:
    function, arguments = _dotted(children[0]), _of(children, ast.Argument)
    if function in NAMED and len(arguments) == 1 and arguments[0].name is None:
        element = ast.TypeName(span=children[0].span, name=function)
        return ast.Cast(span=span, element=element, operand=arguments[0].value)
    return ast.Call(span=span, function=function, arguments=arguments)


def _dotted(callee: ast.Expression) -> str:
    match callee:
        case ast.Name(name=name):
            return name
        case ast.Member(record=record, name=name):
            return f"{_dotted(record)}.{name}"
    raise CompllError(_error("E0001", "a call needs the name of a function before `(`", callee.span))


@_builds("sized_cast")
def _sized_cast(span: Span, children: list[Any]) -> ast.Cast:
    width, operand = children
    element = ast.TypeName(span=Span(span.source, span.start, width.span.end + 1), name="uint", width=width)
    return ast.Cast(span=span, element=element, operand=operand)


# --- types -----------------------------------------------------------------------------------------------------------


@_builds("named_element")
def _named_element(span: Span, children: list[Any]) -> ast.TypeName:
    return ast.TypeName(span=span, name=children[0].text)


@_builds("sized_element")
def _sized_element(span: Span, children: list[Any]) -> ast.TypeName:
    return ast.TypeName(span=span, name="uint", width=children[0])


@_builds("shape")
def _shape(span: Span, children: list[Any]) -> tuple[ast.Extent, ...]:
    return tuple(children)


@_builds("exact_extent")
def _exact_extent(span: Span, children: list[Any]) -> ast.Extent:
    return ast.Extent(span=span, size=children[0])


@_builds("bounded_extent")
def _bounded_extent(span: Span, children: list[Any]) -> ast.Extent:
    return ast.Extent(span=span, size=children[0], bounded=True)


@_builds("plain_type")
def _plain_type(span: Span, children: list[Any]) -> ast.TypeExpression:
    return ast.TypeExpression(span=span, element=children[0], shape=_second(children) or ())


@_builds("ascending_type")
def _ascending_type(span: Span, children: list[Any]) -> ast.TypeExpression:
    element = ast.TypeName(span=span, name="u32")
    return ast.TypeExpression(span=span, element=element, shape=_second(children) or (), ascending=children[0])


# --- statements ------------------------------------------------------------------------------------------------------


@_builds("block")
def _block(span: Span, children: list[Any]) -> tuple[ast.Statement, ...]:
    return tuple(children)


@_builds("size_definition")
def _size_definition(span: Span, children: list[Any]) -> ast.SizeDefinition:
    return ast.SizeDefinition(span=span, name=children[0].text, value=children[1])


@_builds("let")
def _let(span: Span, children: list[Any]) -> ast.Let:
    return ast.Let(span=span, name=children[0].text, value=children[1])


@_builds("assign")
def _assign(span: Span, children: list[Any]) -> ast.Assign:
    return ast.Assign(span=span, name=children[0].text, value=children[1])


@_builds("clear")
def _clear(span: Span, children: list[Any]) -> ast.Clear:
    return ast.Clear(span=span, state=children[0].text, index=children[1])


@_builds("repeat")
def _repeat(span: Span, children: list[Any]) -> ast.Repeat:
    return ast.Repeat(span=span, limit=children[0], condition=children[1], body=children[2])


@_builds("return_fields")
def _return_fields(span: Span, children: list[Any]) -> ast.ReturnFields:
    return ast.ReturnFields(span=span, fields=tuple(children))


@_builds("return_value")
def _return_value(span: Span, children: list[Any]) -> ast.Return:
    return ast.Return(span=span, value=children[0])


# --- declarations ----------------------------------------------------------------------------------------------------


@_builds("parameter")
def _parameter(span: Span, children: list[Any]) -> ast.Parameter:
    name, element, default = children[:3]
    allowed = children[3] if len(children) > 3 else None
    return ast.Parameter(span=span, name=name.text, element=element, default=default, range=allowed)


@_builds("range")
def _range(span: Span, children: list[Any]) -> ast.Range:
    left, low, high, right = children
    return ast.Range(span=span, low=low, high=high, low_open=left.text == "(", high_open=right.text == ")")


@_builds("feedback")
def _feedback(span: Span, children: list[Any]) -> ast.Feedback:
    return ast.Feedback(span=span, kind=children[0].text, condition=_second(children))


@_builds("traits")
def _traits(span: Span, children: list[Any]) -> tuple[ast.Trait, ...]:
    return tuple(children)


@_builds("trait")
def _trait(span: Span, children: list[Any]) -> ast.Trait:
    return ast.Trait(span=span, name=children[0].text, condition=_second(children))


@_builds("state")
def _state(span: Span, children: list[Any]) -> ast.State:
    initial = children[2] if len(children) > 2 else None
    return ast.State(span=span, name=children[0].text, type=children[1], initial=initial)


@_builds("payload")
def _payload(span: Span, children: list[Any]) -> _Payload:
    return _Payload(span, tuple(children))


@_builds("payload_field")
def _payload_field(span: Span, children: list[Any]) -> ast.PayloadField:
    name, *rest = children
    pairs = zip([*rest[1::2], None], rest[0::2], strict=True)
    return ast.PayloadField(span=span, name=name.text, alternatives=tuple(pairs))


@_builds("function_parameter")
def _function_parameter(span: Span, children: list[Any]) -> ast.FunctionParameter:
    return ast.FunctionParameter(span=span, name=children[0].text, type=children[1])


@_builds("function")
def _function(span: Span, children: list[Any]) -> ast.Function:
    parameters = _of(children, ast.FunctionParameter)
    return ast.Function(
        span=span, name=children[0].text, parameters=parameters, result=children[-2], body=children[-1]
    )


@_builds("encode")
def _encode(span: Span, children: list[Any]) -> ast.Encode:
    return ast.Encode(span=span, gradient=children[0].text, type=children[1], body=children[2])


@_builds("decode")
def _decode(span: Span, children: list[Any]) -> ast.Decode:
    return ast.Decode(span=span, payload=children[0].text, type=children[1], body=children[2])


# --- the whole -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Payload:
    span: Span
    fields: tuple[ast.PayloadField, ...]


@_builds("start")
def _compressor(span: Span, children: list[Any]) -> ast.Compressor:
    name, *members = children
    encode = _only("encode", _of(members, ast.Encode))
    if encode is None:
        raise CompllError(_error("E0007", f"compressor `{name.text}` needs an `encode`, found none", name.span))
    payload = _only("payload", _of(members, _Payload))
    return ast.Compressor(
        span=span,
        name=name.text,
        params=_of(members, ast.Parameter),
        functions=_of(members, ast.Function),
        feedback=_only("feedback", _of(members, ast.Feedback)),
        traits=tuple(trait for group in _of(members, tuple) for trait in group),
        states=_of(members, ast.State),
        payload=payload.fields if payload else (),
        encode=encode,
        decode=_only("decode", _of(members, ast.Decode)),
    )


def _only(what: str, found: tuple[Any, ...]) -> Any:
    if len(found) > 1:
        raise CompllError(_error("E0006", f"`{what}` is given twice", found[1].span, label="the second one"))
    return found[0] if found else None


def _error(code: str, message: str, span: Span, *, label: str = "", hint: str = "") -> Diagnostic:
    return Diagnostic(code=code, message=message, span=span, label=label, hint=hint)
