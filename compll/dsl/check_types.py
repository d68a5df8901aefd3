"""Types as written -> types: element names, extents, ascending indices."""

from __future__ import annotations

from dataclasses import replace

from compll.dsl import ast
from compll.dsl.check_sizes import size, value_of
from compll.dsl.context import Context
from compll.dsl.scope import did_you_mean
from compll.dsl.types import ArrayType, Bounded, Dimension, ElementType, Indices, SizeType, SymbolicUint
from compll.dtypes import MAX_PACKED_BITS, NAMED, U32, DType, uint
from compll.sizes import Num, variables

_KNOWN_TYPES = [*NAMED, "uint"]


def computes_as(element: ElementType) -> DType:
    """The type in which arithmetic on such elements is done."""
    return U32 if isinstance(element, SymbolicUint) else element.computes_as


def is_unsigned(element: ElementType) -> bool:
    return isinstance(element, SymbolicUint) or element.kind == "uint"


def resolve_element(context: Context, written: ast.TypeName) -> tuple[ast.TypeName, ElementType | None]:
    """The element type with its width typed; None after a report."""
    if written.width is not None:
        return _sized(context, written, written.width)
    if written.name in NAMED:
        return written, NAMED[written.name]
    hint = did_you_mean(written.name, _KNOWN_TYPES)
    if written.name[:1] == "u" and written.name[1:].isdigit():
        hint = f"an unsigned width is 1 to {MAX_PACKED_BITS} or 32 bits"
    context.report("E0103", f"unknown type `{written.name}`", written.span, hint=hint)
    return written, None


def _sized(
    context: Context, written: ast.TypeName, width: ast.Expression
) -> tuple[ast.TypeName, ElementType | None]:
    typed = size(context, width)
    written, value = replace(written, width=typed), value_of(typed)
    if value is not None and not variables(value) <= context.parameter_names():
        message = "the width of `uint` must depend on parameters and numbers only"
        context.report("E0116", message, width.span)
        return written, None
    if not isinstance(value, Num):
        return written, None if value is None else SymbolicUint(value)
    try:
        return written, uint(int(value.value)) if value.value.is_integer() else None
    except ValueError:
        message = f"an unsigned width is 1 to {MAX_PACKED_BITS} or 32 bits, got {value}"
        context.report("E0103", message, width.span)
        return written, None


def resolve_type(context: Context, written: ast.TypeExpression, *, bounded_origin: str = "") -> ast.TypeExpression:
    """The type with `resolved` filled in, or left None after a report.

    Only a payload field may be bounded: `bounded_origin` is its name then.
    """
    element_name, element = resolve_element(context, written.element)
    extents = tuple(_extent(context, extent) for extent in written.shape)
    dimensions = [_dimension(context, extent, bounded_origin) for extent in extents]
    known = [dimension for dimension in dimensions if dimension is not None]
    below = size(context, written.ascending) if written.ascending is not None else None
    result = replace(written, element=element_name, shape=extents, ascending=below)
    if element is None or len(known) != len(dimensions) or not _legal_shape(context, written, known):
        return result
    indices = None
    if below is not None:
        if (limit := value_of(below)) is None:
            return result
        indices = Indices(limit, True)
    return replace(result, resolved=ArrayType(element, tuple(known), indices))


def _extent(context: Context, extent: ast.Extent) -> ast.Extent:
    """The extent typed: a size, or the bounded array that a `len` refers to."""
    match extent.size:
        case ast.Call(function="len", arguments=(argument,)) if context.place == "payload" and not extent.bounded:
            with context.quiet():
                array = context.value(context, argument.value)
            if isinstance(array.type, ArrayType) and array.type.shape and isinstance(array.type.shape[-1], Bounded):
                call = replace(extent.size, arguments=(replace(argument, value=array),), type=array.type)
                return replace(extent, size=call)
    return replace(extent, size=size(context, extent.size))


def _dimension(context: Context, extent: ast.Extent, bounded_origin: str) -> Dimension | None:
    match extent.size.type:
        case ArrayType(shape=(*_, last)):
            return last
        case SizeType(value):
            if not extent.bounded:
                return value
            if bounded_origin:
                return Bounded(value, bounded_origin)
            context.report("E0115", "only a payload field may have a bounded length", extent.span)
    return None


def _legal_shape(context: Context, written: ast.TypeExpression, shape: list[Dimension]) -> bool:
    if len(shape) > 2:
        context.report("E0130", f"an array has at most 2 dimensions, got {len(shape)}", written.span)
    elif len(shape) == 2 and any(isinstance(dimension, Bounded) for dimension in shape):
        context.report("E0115", "only a one-dimensional field may have a bounded length", written.span)
    elif written.ascending is not None and not shape:
        context.report("E0130", "`ascending` indices need a length, as in `ascending(n)[k]`", written.span)
    else:
        return True
    return False
