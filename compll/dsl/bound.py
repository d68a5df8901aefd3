"""A call with its arguments sorted out by parameter, and the kinds of operand that rules ask for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from compll.dsl import ast
from compll.dsl.check_operators import described
from compll.dsl.check_sizes import size, value_of
from compll.dsl.check_types import computes_as
from compll.dsl.context import Context
from compll.dsl.types import ArrayType, Bounded, Dimension, ElementType, Poison, Type
from compll.dtypes import DType
from compll.primitives import Formal
from compll.sizes import Size


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """`given` maps each parameter that has an argument to its expressions (several for a variadic one)."""

    call: ast.Call
    formals: tuple[Formal, ...]
    given: Mapping[str, list[ast.Expression]]
    expected: ElementType | None

    def operand(self, name: str) -> ast.Expression:
        return self.given[name][0]

    def option(self, name: str) -> ast.Expression | None:
        return self.given[name][0] if name in self.given else None

    def operands(self) -> list[ast.Expression]:
        """The expressions of all parameters that are no options, in order."""
        return [e for f in self.formals if not f.option for e in self.given.get(f.name, ())]

    def finish(
        self, operands: Sequence[ast.Expression], options: Mapping[str, ast.Expression] | None = None, *, type_: Type
    ) -> ast.Expression:
        """The typed call: operands without names, then options by name."""
        arguments = [ast.Argument(span=e.span, name=None, value=e) for e in operands]
        arguments += [ast.Argument(span=e.span, name=name, value=e) for name, e in (options or {}).items()]
        return replace(self.call, arguments=tuple(arguments), type=type_)


Rule = Callable[[Context, Bound], ast.Expression]

# --- operands --------------------------------------------------------------------------------------------------------


def array_operand(
    context: Context,
    bound: Bound,
    name: str,
    *,
    accepts: Callable[[DType], bool] = lambda element: True,
    needs: str = "an array",
    rank: int | None = None,
    fixed: bool = False,
) -> tuple[ast.Expression, ArrayType | None]:
    """An operand that must be an array (of `rank` dimensions, of `fixed` length); the type is None after a report."""
    typed = context.value(context, bound.operand(name))
    type_ = typed.type
    if isinstance(type_, Poison):
        return typed, None
    what = f"`{bound.call.function}`"
    if not isinstance(type_, ArrayType) or not type_.shape or not accepts(computes_as(type_.element)):
        return context.wrong(typed, "E0106", f"{what} needs {needs}, got {described(type_)}"), None
    if rank is not None and len(type_.shape) != rank:
        kind = "a matrix" if rank == 2 else "a one-dimensional array"
        return context.wrong(typed, "E0106", f"{what} needs {kind}, got {type_}"), None
    if fixed and isinstance(type_.shape[-1], Bounded):
        message = f"{what} needs an array of known length, got {type_}"
        return context.wrong(typed, "E0106", message), None
    return typed, type_


def size_operand(context: Context, bound: Bound, name: str) -> ast.Expression:
    return size(context, bound.operand(name))


def flag_option(context: Context, bound: Bound, name: str) -> dict[str, ast.Expression]:
    """An option that must be `true` or `false` as a word."""
    option = bound.option(name)
    if option is None:
        return {}
    if not isinstance(option, ast.Boolean):
        context.report("E0106", f"`{name}` needs `true` or `false`, got `{option.span.text}`", option.span)
        return {}
    return {name: context.value(context, option)}


def dimension_operands(context: Context, bound: Bound) -> tuple[list[ast.Expression], tuple[Dimension, ...] | None]:
    """The dimensions of a generated array; those of the state where an initial value leaves them out."""
    sizes = [size(context, e) for e in bound.given["dimensions"]]
    if not sizes and context.initial_shape is not None:
        return [], context.initial_shape
    if not 1 <= len(sizes) <= 2:
        message = f"`{bound.call.function}` needs one or two dimensions, got {len(sizes)}"
        context.report("E0105", message, bound.call.span)
        return sizes, None
    values = [value for e in sizes if (value := value_of(e)) is not None]
    return sizes, tuple(values) if len(values) == len(sizes) else None


def capacity(dimension: Dimension) -> Size:
    """The length, or the limit of a bounded one."""
    return dimension.limit if isinstance(dimension, Bounded) else dimension
