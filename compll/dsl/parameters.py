"""Values of parameters: conversion to the declared type, range, defaults. Used by the checker and by loading."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping

from compll.diagnostics import CompllError, Diagnostic, Span
from compll.dsl import ast
from compll.dsl.scope import did_you_mean
from compll.dsl.types import SizeType
from compll.dtypes import F32_OVERFLOW, NAMED
from compll.sizes import Num

Value = float | int | bool

#: The types that a parameter may have.
TYPES = ("f32", "i32", "u32", "bool")


def parameter_values(module: ast.Module, given: Mapping[str, object]) -> dict[str, Value]:
    """The value of every parameter of a checked module, in order of declaration: the given one or the default.

    f32 parameters give float (float64, as written), i32 and u32 int, bool bool; text is read as the language writes it
    ("0.5", "true", "inf"). Raises CompllError naming every unknown parameter, wrong type (E0134) and value outside its
    range (E0123).
    """
    compressor = module.compressor
    declared = {parameter.name: parameter for parameter in compressor.params}
    problems = [_unknown(compressor, name) for name in given if name not in declared]
    values: dict[str, Value] = {}
    for name, parameter in declared.items():
        value = converted(parameter, given[name]) if name in given else default_of(parameter)
        problem = value if isinstance(value, Diagnostic) else out_of_range(parameter, value)
        if problem is not None:
            problems.append(problem)
        elif not isinstance(value, Diagnostic):
            values[name] = value
    if problems:
        raise CompllError(problems)
    return values


def _unknown(compressor: ast.Compressor, name: str) -> Diagnostic:
    names = [parameter.name for parameter in compressor.params]
    listed = ", ".join(f"`{known}`" for known in names) or "none"
    message = f"compressor `{compressor.name}` has no parameter `{name}`; it has {listed}"
    return Diagnostic(code="E0133", message=message, span=None, hint=did_you_mean(name, names))


def default_of(parameter: ast.Parameter) -> Value | Diagnostic:
    """The default of a checked parameter."""
    default = parameter.default
    constant = constant_of(default)
    if isinstance(default, ast.Boolean):
        return converted(parameter, default.value, default.span)
    if parameter.element.name == "bool" and constant is not None and not isinstance(default, ast.Number):
        return bool(constant)
    return converted(parameter, math.nan if constant is None else constant, default.span)


def constant_of(expression: ast.Expression) -> float | None:
    """The value of a typed expression of numbers only."""
    match expression.type:
        case SizeType(Num(value)):
            return value
    return None


def converted(parameter: ast.Parameter, value: object, span: Span | None = None) -> Value | Diagnostic:
    """A value in the type of the parameter, or what is wrong with it."""
    type_name = parameter.element.name
    result = _read(value) if isinstance(value, str) else value
    if type_name == "bool":
        is_bool = isinstance(result, bool) or str(getattr(result, "dtype", "")) == "bool"
        fits: Value | None = bool(result) if is_bool else None
    elif isinstance(result, bool):
        fits = None
    elif type_name == "f32":
        fits = _as_float(result)
    else:
        fits = _as_int(result, *NAMED[type_name].limits)
    if fits is not None:
        return fits
    message = f"parameter `{parameter.name}` needs {_NEEDS[type_name]}, got {value!r}"
    return Diagnostic(code="E0134", message=message, span=span or parameter.span)


_NEEDS = {
    "f32": "an f32 number",
    "i32": "a whole number from -2147483648 to 2147483647",
    "u32": "a whole number from 0 to 4294967295",
    "bool": "true or false",
}


def _read(text: str) -> object:
    """A word of a command line as a value; the text itself where it is none."""
    if text.strip().lower() in ("true", "false"):
        return text.strip().lower() == "true"
    for kind in (lambda t: int(t, 0), float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _as_float(value: object) -> float | None:
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return None
    beyond = F32_OVERFLOW <= abs(number) < math.inf
    return None if math.isnan(number) or beyond or isinstance(value, str) else number


def _as_int(value: object, low: int, high: int) -> int | None:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        return None
    return number if low <= number <= high else None


def out_of_range(parameter: ast.Parameter, value: Value, span: Span | None = None) -> Diagnostic | None:
    """What is wrong with a value that lies outside the declared range."""
    allowed = parameter.range
    if allowed is None:
        return None
    low, high = constant_of(allowed.low), constant_of(allowed.high)
    if low is None or high is None:
        return None
    above = value > low if allowed.low_open else value >= low
    below = value < high if allowed.high_open else value <= high
    if above and below:
        return None
    shown = f"{'(' if allowed.low_open else '['}{Num(low)}, {Num(high)}{')' if allowed.high_open else ']'}"
    message = f"parameter `{parameter.name}` must lie in {shown}, got {value}"
    return Diagnostic(code="E0123", message=message, span=span or parameter.span)
