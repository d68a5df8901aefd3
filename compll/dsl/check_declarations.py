"""Declarations above the bodies: parameters, the gradient's dimensions, states, feedback, traits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from compll.diagnostics import Diagnostic
from compll.dsl import ast
from compll.dsl.check_operators import adapts, described
from compll.dsl.check_sizes import is_short, size, value_of
from compll.dsl.check_types import computes_as, resolve_element, resolve_type
from compll.dsl.context import Context
from compll.dsl.parameters import TYPES, constant_of, default_of, out_of_range
from compll.dsl.scope import Scope, Symbol, did_you_mean
from compll.dsl.types import ArrayType, Bounded, Poison, SizeType, Type
from compll.dtypes import F32, NAMED
from compll.sizes import Num, Var, substitute, variables

TRAITS = ("contraction", "linear", "momentum", "shared_seed", "unbiased", "zero_preserving")

# --- parameters ------------------------------------------------------------------------------------------------------


def parameter(context: Context, declared: ast.Parameter) -> ast.Parameter:
    """A parameter with its default and range evaluated, and its name defined."""
    if declared.element.name not in TYPES or declared.element.width is not None:
        _, known = resolve_element(context, declared.element)
        if known is not None:
            message = f"a parameter is {', '.join(TYPES[:-1])} or {TYPES[-1]}, got {known}"
            context.report("E0130", message, declared.element.span)
        context.define(Symbol(declared.name, "parameter", Poison(), declared.span))
        return declared
    declared = replace(declared, default=_constant(context, declared.default), range=_range(context, declared.range))
    context.define(Symbol(declared.name, "parameter", ArrayType(NAMED[declared.element.name]), declared.span))
    if constant_of(declared.default) is None:
        return declared
    value = default_of(declared)
    problem = value if isinstance(value, Diagnostic) else out_of_range(declared, value, declared.default.span)
    if problem is not None:
        context.problems.append(problem)
    return declared


def _range(context: Context, allowed: ast.Range | None) -> ast.Range | None:
    if allowed is None:
        return None
    low, high = _constant(context, allowed.low), _constant(context, allowed.high)
    first, last = constant_of(low), constant_of(high)
    if first is not None and last is not None and first > last:
        context.report("E0123", f"the range `{allowed.span.text}` is empty", allowed.span)
    return replace(allowed, low=low, high=high)


def _constant(context: Context, expression: ast.Expression) -> ast.Expression:
    with context.nested(Scope()):
        typed = size(context, expression)
    if isinstance(typed.type, SizeType) and not isinstance(typed.type.value, Num):
        return context.wrong(typed, "E0116", f"`{expression.span.text}` has no value")
    return typed


def builtin_sizes(context: Context) -> None:
    """`numel` always means the number of elements: it is there before anything else may take the name."""
    context.define(Symbol("numel", "dimension", SizeType(Var("numel")), None, used=True))


# --- the gradient ----------------------------------------------------------------------------------------------------


def gradient(context: Context, encode: ast.Encode) -> ast.TypeExpression:
    """The type of the gradient; the names of its dimensions come into the scope of the whole compressor."""
    written = encode.type
    names = [extent.size.name if isinstance(extent.size, ast.Name) else None for extent in written.shape]
    _define_dimensions(context, names, written)
    typed = resolve_type(context, written)
    context.probes = _probes(context, names)
    if typed.resolved is not None and not _is_gradient(context, typed, names):
        needs = "`f32[n]`, `f32[rows, cols]` or `f32[blocks(b), b]`"
        hint = "its dimensions are new names" if typed.resolved.element == F32 else ""
        message = f"the gradient is {needs}, got `{written.span.text}`"
        context.report("E0130", message, written.span, hint=hint)
        return replace(typed, resolved=None)
    return typed


def _define_dimensions(context: Context, names: Sequence[str | None], written: ast.TypeExpression) -> None:
    """Names alone are new dimensions; beside `blocks(b)` a name is known already, or reported once."""
    for name, extent in zip(names, written.shape, strict=True):
        if name is None or context.scope.find(name) is not None:
            continue
        type_: Type = SizeType(Var(name))
        if None in names:
            hint = did_you_mean(name, context.scope.names())
            type_ = context.report("E0101", f"unknown name `{name}`", extent.span, hint=hint)
        context.scope.add(Symbol(name, "dimension", type_, extent.span, used=True))


def _is_gradient(context: Context, typed: ast.TypeExpression, names: Sequence[str | None]) -> bool:
    if typed.resolved is None or typed.resolved.element != F32 or typed.ascending is not None:
        return False
    match typed.shape:
        case (ast.Extent(size=ast.Call(function="blocks", arguments=(argument,))), second):
            length, block = value_of(second.size), value_of(argument.value)
            return length is not None and block is not None and context.same_size(length, block)
        case () | (_, _, _, *_):
            return False
    symbols = [context.program.find(name) if name else None for name in names]
    return len({*names, "numel"}) == len(names) + 1 and all(s is not None and s.kind == "dimension" for s in symbols)


def _probes(context: Context, names: Sequence[str | None]) -> list[dict[str, float]]:
    """Shapes and parameter values at which sizes are compared."""
    shapes: list[dict[str, float]] = []
    for rows, columns in ((1, 7), (3, 64), (17, 1000), (64, 999), (1031, 4096), (5, 70001)):
        probe = {"numel": float(rows * columns)}
        extents = (rows * columns,) if len(names) == 1 else (rows, columns)
        probe.update({name: float(e) for name, e in zip(names, extents, strict=False) if name})
        shapes.append(probe)
    defaults = {name: _probe_value(s) for name, s in context.program.symbols.items() if s.kind == "parameter"}
    return [{**shape, **{name: v * scale for name, v in defaults.items()}} for shape in shapes for scale in (1, 2)]


def _probe_value(symbol: Symbol) -> float:
    """A value of a parameter that no other has, so that two parameters are never taken for one."""
    seed = sum((i + 1) * ord(c) for i, c in enumerate(symbol.name))
    if symbol.type == ArrayType(F32):
        return 0.001 + (seed % 89) / 211
    return float(2 + seed % 13)


# --- states ----------------------------------------------------------------------------------------------------------


def states(context: Context, declared: Iterable[ast.State], encode: ast.Encode) -> tuple[ast.State, ...]:
    """The states, typed and defined. Their shapes may use the sizes that encode defines from shapes and parameters."""
    early = _early_sizes(context, encode)
    return tuple(_state(context, state, early) for state in declared)


def _early_sizes(context: Context, encode: ast.Encode) -> Scope:
    scope = Scope(context.program)
    with context.quiet(), context.nested(scope):
        known: dict[str, SizeType] = {}
        for statement in encode.body:
            if isinstance(statement, ast.SizeDefinition):
                value = value_of(size(context, statement.value))
                if value is None:
                    continue
                full = substitute(value, {name: type_.value for name, type_ in known.items()})
                if is_short(context, full, statement.value):
                    known[statement.name] = SizeType(full)
                    scope.add(Symbol(statement.name, "size", known[statement.name], statement.span))
    return scope


def _state(context: Context, state: ast.State, early: Scope) -> ast.State:
    with context.nested(early):
        type_ = resolve_type(context, state.type)
    resolved = type_.resolved
    if resolved is not None and not isinstance(resolved.element, type(F32)):
        context.report("E0130", f"a state needs a type of known width, got {resolved}", state.type.span)
        resolved = None
    context.define(Symbol(state.name, "state", resolved or Poison(), state.span))
    if state.initial is None or resolved is None:
        return replace(state, type=type_)
    return replace(state, type=type_, initial=_initial(context, state, resolved, early))


def _initial(context: Context, state: ast.State, type_: ArrayType, early: Scope) -> ast.Expression | None:
    assert state.initial is not None
    place, context.place = context.place, "initial"
    context.initial_shape = type_.shape
    with context.nested(early):
        value = context.value(context, state.initial, type_.element)
    context.place, context.initial_shape = place, None
    given = value.type
    if isinstance(given, Poison):
        return value
    if not isinstance(given, ArrayType) or not _fills(context, state.initial, given, type_):
        message = f"state `{state.name}` is {type_}, its initial value {described(given)}"
        alike = isinstance(given, ArrayType) and _computes_alike(given, type_)
        hint = f"convert it: `{type_.element}({state.initial.span.text})`" if alike else ""
        context.report("E0107", message, state.initial.span, hint=hint)
    return value


def _fills(context: Context, initial: ast.Expression, given: ArrayType, type_: ArrayType) -> bool:
    """Whether a state may begin as this: an array of its shape or a scalar, of its type or a whole number."""
    fits = not given.shape or context.same_shape(given.shape, type_.shape)
    whole = adapts(initial) and _computes_alike(given, type_)
    return fits and (context.same_element(given.element, type_.element) or whole)


def _computes_alike(first: ArrayType, second: ArrayType) -> bool:
    return computes_as(first.element) == computes_as(second.element)


# --- feedback and traits ---------------------------------------------------------------------------------------------


def condition(context: Context, expression: ast.Expression | None, what: str) -> ast.Expression | None:
    """A condition that is known when the program is loaded: of parameters and numbers only."""
    if expression is None:
        return None
    typed = size(context, expression)
    value = value_of(typed)
    symbols = [context.program.find(name) for name in (variables(value) if value is not None else ())]
    if any(symbol is None or symbol.kind != "parameter" for symbol in symbols):
        context.report("E0136", f"the condition of {what} must depend on parameters only", expression.span)
    return typed


def feedback(context: Context, declared: ast.Feedback | None) -> ast.Feedback | None:
    if declared is None:
        return None
    return replace(declared, condition=condition(context, declared.condition, "feedback"))


def traits(context: Context, compressor: ast.Compressor) -> tuple[ast.Trait, ...]:
    """The traits with their conditions typed; unknown, repeated and contradicted ones are reported."""
    typed = []
    seen: set[str] = set()
    for trait in compressor.traits:
        if trait.name not in TRAITS:
            listed = ", ".join(f"`{name}`" for name in TRAITS)
            hint = did_you_mean(trait.name, TRAITS)
            context.report("E0120", f"unknown trait `{trait.name}`; there are {listed}", trait.span, hint=hint)
        elif trait.name in seen:
            context.report("E0104", f"trait `{trait.name}` is given twice", trait.span)
        elif reason := _contradiction(context, trait, compressor):
            context.report("E0121", f"trait `{trait.name}` is contradicted: {reason}", trait.span)
        seen.add(trait.name)
        typed.append(replace(trait, condition=condition(context, trait.condition, f"trait `{trait.name}`")))
    return tuple(typed)


def _contradiction(context: Context, trait: ast.Trait, compressor: ast.Compressor) -> str:
    """What in the program cannot be with this trait, as far as it can be seen."""
    match trait.name:
        case "linear":
            return next((reason for field in compressor.payload if (reason := _no_addition(field))), "")
        case "momentum":
            return "" if compressor.states else "there is no state that could hold a velocity"
        case "shared_seed":
            return "" if context.draws["encode"] else "encode has no draw with `shared = true`"
    return ""


def _no_addition(field: ast.PayloadField) -> str:
    """Why payloads with this field cannot be added; empty if they can."""
    for _, written in field.alternatives:
        type_ = written.resolved
        if type_ is None:
            return ""
        if any(isinstance(dimension, Bounded) for dimension in type_.shape):
            return f"field `{field.name}` is bounded, so ranks may send different elements"
        if written.ascending is not None or not isinstance(type_.element, type(F32)) or type_.element.kind != "float":
            return f"field `{field.name}` is {type_}, and codes or positions do not add"
    return ""
