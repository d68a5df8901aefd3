"""Whether positions fit what holds them at a shape: u32 wherever they are computed, the width of a payload field."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from compll.diagnostics import CompllError, Diagnostic
from compll.dsl import ast
from compll.dsl.facts import walk
from compll.dsl.types import ArrayType, Bounded, RecordType
from compll.dtypes import DType
from compll.sizes import Size, evaluate, product

#: Of the axis that positions are of. Two u32 are no positions: what pads a selection, and what lies beyond any array.
MAX_EXTENT = 2**32 - 2


def check_positions(module: ast.Module, alternatives: tuple[int, ...], variables: Mapping[str, float]) -> None:
    """Raise CompllError, with the expression or the field, where positions do not fit. `alternatives` are the chosen
    types of conditional payload fields, `variables` the values of sizes."""
    for node in walk(module.compressor):
        for axis in _axes(node):
            extent = evaluate(axis, variables)
            if extent > MAX_EXTENT:
                message = f"positions are u32, so of an axis of at most {MAX_EXTENT} elements, got {extent:.0f}"
                raise CompllError(Diagnostic(code="E0139", message=message, span=node.span))
    _check_fields(module, alternatives, variables)


def _axes(node: ast.Node) -> Iterator[Size]:
    """The extents of the axes that the values of a node are positions of."""
    type_ = getattr(node, "resolved", None) or getattr(node, "type", None)
    arrays = [array for _, array in type_.fields] if isinstance(type_, RecordType) else [type_]
    for array in arrays:
        if isinstance(array, ArrayType) and array.indices is not None:
            yield array.indices.below
    match node:  # the positions that it draws are seen by nobody
        case ast.Call(function="sample", arguments=(ast.Argument(value=sampled), *_)):
            if isinstance(sampled.type, ArrayType):
                yield product(tuple(d.limit if isinstance(d, Bounded) else d for d in sampled.type.shape))


def _check_fields(module: ast.Module, alternatives: tuple[int, ...], variables: Mapping[str, float]) -> None:
    choices = iter(alternatives)
    chosen = {
        field.name: field.alternatives[next(choices) if len(field.alternatives) > 1 else 0][1]
        for field in module.compressor.payload
    }
    for statement in module.compressor.encode.body:
        for returned in statement.fields if isinstance(statement, ast.ReturnFields) else ():
            type_, field = returned.value.type, chosen[returned.name or ""]
            if isinstance(type_, ArrayType) and type_.indices is not None and field.ascending is None:
                _check_width(returned.name, field, evaluate(type_.indices.below, variables))


def _check_width(name: str | None, field: ast.TypeExpression, below: float) -> None:
    element = field.resolved.element if field.resolved else None
    if isinstance(element, DType) and element.kind == "uint" and below > 2.0**element.bits:
        raise CompllError(
            f"field `{name}` is {element}, which holds indices below {2 ** element.bits}, "
            f"got a gradient whose indices reach {int(below) - 1}"
        )
