"""The payload: the types of its fields, and whether a `return` fills them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from compll.dsl import ast
from compll.dsl.check_operators import adapts, described
from compll.dsl.check_sizes import size
from compll.dsl.check_types import computes_as, is_unsigned, resolve_type
from compll.dsl.context import Context
from compll.dsl.scope import Scope, Symbol, did_you_mean
from compll.dsl.types import ArrayType, Bounded, Dimension, ElementType, Indices, Poison, RecordType
from compll.dtypes import F32, U32


def payload_fields(context: Context, fields: Sequence[ast.PayloadField]) -> tuple[ast.PayloadField, ...]:
    """The fields with their types resolved and conditions typed; a later field may refer to an earlier one's length."""
    place, context.place = context.place, "payload"
    with context.nested(Scope(context.program)):
        typed = tuple(_field(context, field) for field in fields)
    context.place = place
    return typed


def _field(context: Context, field: ast.PayloadField) -> ast.PayloadField:
    alternatives = []
    for condition, written in field.alternatives:
        tested = size(context, condition) if condition is not None else None
        alternatives.append((tested, resolve_type(context, written, bounded_origin=field.name)))
    field = replace(field, alternatives=tuple(alternatives))
    earlier = context.scope.symbols.get(field.name)
    if earlier is not None and earlier.span is not None:
        context.report("E0104", f"field `{field.name}` is declared twice", field.span)
    _one_kind(context, field)
    type_ = decoded_type(field)
    context.scope.add(Symbol(field.name, "field", type_ or Poison(), field.span))
    if type_ is None:
        context.poisoned_fields.add(field.name)
    return field


def _one_kind(context: Context, field: ast.PayloadField) -> None:
    """All alternatives of a field have one shape and compute alike, so that decode can be checked once."""
    types = [written.resolved for _, written in field.alternatives]
    first = types[0]
    for (_, written), type_ in zip(field.alternatives[1:], types[1:], strict=True):
        if first is None or type_ is None:
            return
        if computes_as(first.element) != computes_as(type_.element) or not _same_lengths(context, first, type_):
            message = f"the alternatives of field `{field.name}` must have one shape and kind: {first} and {type_}"
            context.report("E0107", message, written.span)
            context.poisoned_fields.add(field.name)
            return


def _same_lengths(context: Context, left: ArrayType, right: ArrayType) -> bool:
    limits = [d.limit for t in (left, right) for d in t.shape if isinstance(d, Bounded)]
    return context.same_shape(left.shape, right.shape) and (len(limits) < 2 or context.same_size(limits[0], limits[1]))


def decoded_type(field: ast.PayloadField) -> ArrayType | None:
    """What decode reads: the declared type, or the computing type where there are several."""
    types = [written.resolved for _, written in field.alternatives]
    first = types[0]
    if first is None or any(type_ is None for type_ in types):
        return None
    return first if len(types) == 1 else replace(first, element=computes_as(first.element))


def record_of(fields: Sequence[ast.PayloadField]) -> RecordType:
    """The payload as decode sees it; a field in error has any type, since `poisoned_fields` hides it."""
    return RecordType(tuple((field.name, decoded_type(field) or ArrayType(U32)) for field in fields))


def returned_fields(
    context: Context, statement: ast.ReturnFields, fields: Sequence[ast.PayloadField]
) -> ast.ReturnFields:
    """The `return { ... }` typed and compared with the declared fields."""
    declared = {field.name: field for field in fields}
    seen: set[str] = set()
    lengths: dict[str, Dimension] = {}
    typed = []
    for argument in statement.fields:
        name = argument.name or ""
        field = declared.get(name)
        value = context.value(context, argument.value, _wanted(field))
        typed.append(replace(argument, value=value))
        if field is None:
            hint = did_you_mean(name, declared)
            context.report("E0114", f"the payload has no field `{name}`", argument.span, hint=hint)
        elif name in seen:
            context.report("E0113", f"field `{name}` is returned twice", argument.span)
        elif name not in context.poisoned_fields and not isinstance(value.type, Poison):
            _fits(context, field, value, lengths, whole=adapts(argument.value))
        seen.add(name)
    missing = [name for name in declared if name not in seen]
    if missing:
        listed = " and ".join(f"`{name}`" for name in missing)
        plural = "s" if len(missing) > 1 else ""
        context.report("E0112", f"field{plural} {listed} of the payload not returned", statement.span)
    return replace(statement, fields=tuple(typed))


def _wanted(field: ast.PayloadField | None) -> ElementType | None:
    type_ = decoded_type(field) if field is not None else None
    return type_.element if type_ is not None and not type_.shape else None


def _fits(
    context: Context, field: ast.PayloadField, value: ast.Expression, lengths: dict[str, Dimension], *, whole: bool
) -> None:
    declared = field.alternatives[0][1].resolved
    if declared is None:
        return
    given = value.type
    wants = " or ".join(str(written.resolved) for _, written in field.alternatives)
    message = f"field `{field.name}` needs {wants}, got {described(given)}"
    label = f"this field is {wants}"
    if not isinstance(given, ArrayType):
        context.report("E0107", message, value.span, label=label)
    elif not _lengths_fit(context, declared, given, lengths):
        _report_length(context, field, declared, value, message)
    elif not (whole or _element_fits(context, field, declared, given)):
        context.report("E0107", message, value.span, label=label, hint=_cast_hint(declared, given, value))
    elif declared.indices is not None and given.indices is not None:
        _indices_fit(context, field, value, declared.indices, given.indices)


def _report_length(
    context: Context, field: ast.PayloadField, declared: ArrayType, value: ast.Expression, message: str
) -> None:
    given = value.type
    assert isinstance(given, ArrayType)
    if _is_bounded(given) and not _is_bounded(declared):
        hint = f"declare `{field.name}: {declared.element}[<= ...]`"
        context.report("E0115", message, value.span, label=f"this field is {declared}", hint=hint)
        return
    if _is_bounded(given) and [str(d) for d in declared.shape] == [str(d) for d in given.shape]:
        message = f"field `{field.name}` needs the length of the fields that share its count, got another one"
    context.report("E0111", message, value.span, label=f"this field is {declared}")


def _indices_fit(
    context: Context, field: ast.PayloadField, value: ast.Expression, declared: Indices, given: Indices
) -> None:
    """What goes into `ascending(extent)` ascends and lies below the extent, as far as that is known."""
    if not given.ascending:
        message = f"field `{field.name}` needs ascending indices, got indices in no order"
        context.report("E0131", message, value.span, hint=f"sort them: `sort({value.span.text})`")
    elif context.exceeds(given.below, declared.below):
        message = f"field `{field.name}` needs indices below {declared.below}, got indices below {given.below}"
        context.report("E0131", message, value.span)


def _cast_hint(declared: ArrayType, given: ArrayType, value: ast.Expression) -> str:
    text = (value.operand if isinstance(value, ast.Cast) else value).span.text
    if len(text) > 40:
        return f"convert it with `{declared.element}(...)`"
    if computes_as(given.element) == F32 and computes_as(declared.element) != F32:
        return f"round and convert first: `{declared.element}(floor({text}))`"
    return f"convert it: `{declared.element}({text})`"


def _is_bounded(type_: ArrayType) -> bool:
    return any(isinstance(dimension, Bounded) for dimension in type_.shape)


def _lengths_fit(context: Context, declared: ArrayType, given: ArrayType, lengths: dict[str, Dimension]) -> bool:
    """Equal lengths; a bounded field takes one data-dependent length, or an array that fills it."""
    if len(declared.shape) != len(given.shape):
        return False
    for want, have in zip(declared.shape, given.shape, strict=True):
        if not isinstance(want, Bounded):
            if not context.same_dimension(want, have):
                return False
            continue
        if not context.same_size(want.limit, have.limit if isinstance(have, Bounded) else have):
            return False
        if not context.same_dimension(lengths.setdefault(want.origin, have), have):
            return False
    return True


def _element_fits(context: Context, field: ast.PayloadField, declared: ArrayType, given: ArrayType) -> bool:
    """The same element; positions also in a narrower unsigned type; with alternatives, the same computing type."""
    if context.same_element(declared.element, given.element):
        return True
    if computes_as(declared.element) != computes_as(given.element):
        return False
    positions = given.indices is not None and is_unsigned(declared.element)
    return positions or len(field.alternatives) > 1
