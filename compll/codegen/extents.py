"""Whether the arrays of a program exist at a shape: extents are whole, and no array is beyond any memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from compll.codegen import ir
from compll.diagnostics import CompllError
from compll.sizes import Size, evaluate, extent, product

MAX_ELEMENTS = 2**40  # four tebibytes of f32


def check_extents(program: ir.Program, environment: Mapping[str, float]) -> None:
    """Raise CompllError naming the size where it is no number of elements; `environment` has the named sizes, too."""
    for shape in dict.fromkeys(_shapes(program)):
        for size in shape:
            extent(size, environment)
        if evaluate(product(shape), environment) > MAX_ELEMENTS:
            shown = ", ".join(f"{size} = {evaluate(size, environment):.0f}" for size in shape)
            raise CompllError(f"an array needs to have at most 2^40 elements, got one of [{shown}]")


def _shapes(program: ir.Program) -> Iterator[tuple[Size, ...]]:
    yield program.gradient.shape
    yield from (state.shape for state in program.states)
    yield from (field.shape for field in program.fields)
    for function in program.functions:
        for operation in ir.with_inner(function.operations):
            yield from (value.shape for value in ir.results(operation))
