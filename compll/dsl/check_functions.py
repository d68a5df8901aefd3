"""Calls of `fn`s and functions given as values. A `fn` is checked once as written, and typed anew for each binding of
the dimensions that its parameters name, so that lowering finds every size in the program's own words.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from compll.dsl import ast
from compll.dsl.check_operators import described, is_array
from compll.dsl.check_types import computes_as, resolve_type
from compll.dsl.context import Context, Instance
from compll.dsl.facts import is_elementwise
from compll.dsl.scope import Scope, Symbol
from compll.dsl.types import ArrayType, Bounded, Dimension, ElementType, FunctionType, Poison, SizeType
from compll.primitives import PRIMITIVES
from compll.sizes import Size

# --- functions as values ---------------------------------------------------------------------------------------------


def function_value(
    context: Context, expression: ast.Expression, elements: Sequence[ElementType], what: str
) -> tuple[ast.Expression, ElementType | None]:
    """A function typed for scalars of the given elements, and the element of its result; None after a report."""
    match expression:
        case ast.Lambda():
            return _lambda(context, expression, elements, what)
        case ast.Name(name=name) if name in context.functions or name in PRIMITIVES:
            return _named(context, expression, elements, what)
    with context.quiet():
        context.value(context, expression)
    message = f"{what} needs a function, got `{expression.span.text}`"
    hint = "write it as `|x| ...`"
    return context.wrong(expression, "E0128", message, hint=hint), None


def _lambda(
    context: Context, function: ast.Lambda, elements: Sequence[ElementType], what: str
) -> tuple[ast.Expression, ElementType | None]:
    if len(function.parameters) != len(elements):
        message = f"{what} needs a function of {_counted(len(elements))}, got {_counted(len(function.parameters))}"
        return context.wrong(function, "E0128", message), None
    twice = next((name for name in function.parameters if function.parameters.count(name) > 1), None)
    if twice is not None:
        return context.wrong(function, "E0104", f"two parameters of a function are called `{twice}`"), None
    with context.nested() as scope:
        for name, element in zip(function.parameters, elements, strict=True):
            scope.add(Symbol(name, "element", ArrayType(element), function.span))
        before, context.in_lambda = context.in_lambda, True
        body = context.value(context, function.body)
        context.in_lambda = before
    result = _scalar_result(context, function, body)
    if result is None:
        return replace(function, body=body, type=Poison()), None
    return replace(function, body=body, type=_function_type(elements, result)), result


def _scalar_result(context: Context, function: ast.Lambda, body: ast.Expression) -> ElementType | None:
    if isinstance(body.type, Poison):
        return None
    if isinstance(body.type, ArrayType) and not body.type.shape:
        return body.type.element
    message = f"a function of elements must give one number, got {described(body.type)}"
    context.report("E0132", message, function.body.span, hint="give the array to `map` as one more operand")
    return None


def _named(
    context: Context, function: ast.Name, elements: Sequence[ElementType], what: str
) -> tuple[ast.Expression, ElementType | None]:
    """`map(abs, x)`: typed by calling it on scalars of the given elements."""
    names = [f"element {position + 1}" for position in range(len(elements))]
    arguments = tuple(
        ast.Argument(span=function.span, name=None, value=ast.Name(span=function.span, name=name)) for name in names
    )
    call = ast.Call(span=function.span, function=function.name, arguments=arguments)
    if function.name in PRIMITIVES and not is_elementwise(call):
        message = f"{what} needs a function of elements, and `{function.name}` works on whole arrays"
        return context.wrong(function, "E0128", message), None
    with context.nested() as scope:
        for name, element in zip(names, elements, strict=True):
            scope.add(Symbol(name, "element", ArrayType(element), function.span))
        typed = context.value(context, call)
    if not isinstance(typed.type, ArrayType):
        return replace(function, type=Poison()), None
    return replace(function, type=_function_type(elements, typed.type.element)), typed.type.element


def _function_type(elements: Sequence[ElementType], result: ElementType) -> FunctionType:
    return FunctionType(tuple(ArrayType(element) for element in elements), ArrayType(result))


def _counted(parameters: int) -> str:
    return f"{parameters} parameter{'s' if parameters != 1 else ''}"


# --- calls of fns ----------------------------------------------------------------------------------------------------


def call_function(context: Context, call: ast.Call) -> ast.Expression:
    """A call of a `fn`, typed; on arrays a `fn` of scalars is mapped over them."""
    function = context.functions[call.function]
    ordered = _ordered(context, call, function)
    arguments = [
        context.value(context, a.value, _declared_element(context, p))
        for p, a in zip(function.parameters, ordered, strict=False)
    ]
    call = replace(
        call, arguments=tuple(ast.Argument(span=a.span, name=None, value=a) for a in arguments), type=Poison()
    )
    if len(ordered) != len(function.parameters) or not _allowed(context, call):
        return call
    if any(isinstance(a.type, Poison) for a in arguments) or function.name in context.poisoned_functions:
        return call
    declared_scalar = not function.result.shape and not any(p.type.shape for p in function.parameters)
    if declared_scalar and any(is_array(a.type) for a in arguments):
        return _mapped(context, call)
    return _expanded(context, call, function)


def _ordered(context: Context, call: ast.Call, function: ast.Function) -> list[ast.Argument]:
    """The arguments in the order of the parameters; fewer after a report."""
    names = [p.name for p in function.parameters]
    given: dict[str, ast.Argument] = {}
    for position, argument in enumerate(call.arguments):
        name = argument.name or (names[position] if position < len(names) else None)
        if name not in names or name in given or name is None:
            continue
        given[name] = argument
    if len(given) == len(names) == len(call.arguments):
        return [given[name] for name in names]
    message = f"`{function.name}` needs {len(names)} argument{'s' if len(names) != 1 else ''}"
    shown = ", ".join(f"{p.name}: {p.type.span.text}" for p in function.parameters)
    context.report("E0105", f"{message} ({shown}), got {len(call.arguments)}", call.span)
    return list(given.values())[:-1] if len(given) == len(names) else list(given.values())


def _declared_element(context: Context, parameter: ast.FunctionParameter) -> ElementType | None:
    with context.nested(Scope(context.program)), context.quiet():
        resolved = resolve_type(context, replace(parameter.type, shape=(), ascending=None)).resolved
    return resolved.element if resolved else None


def _allowed(context: Context, call: ast.Call) -> bool:
    """Draws and collectives inside a `fn` are subject to the place that calls it."""
    facts = context.facts.get(call.function)
    if facts is None:
        return True
    name = f"`{call.function}`"
    if context.place == "decode" and facts.private_draw:
        message = f"{name} draws without `shared`, which decode cannot repeat"
        context.report("E0124", message, call.span)
    elif context.place == "decode" and facts.collective:
        context.report("E0125", f"{name} uses a collective, which decode must not", call.span)
    elif context.in_repeat and (facts.private_draw or facts.shared_draw or facts.collective):
        context.report("E0125", f"{name} draws or uses a collective, which `repeat` must not", call.span)
    elif context.in_lambda and facts.whole_arrays:
        context.report("E0125", f"{name} works on whole arrays and cannot run on each element", call.span)
    else:
        if facts.shared_draw:
            context.draws.setdefault(context.place, []).append(None)
        return True
    return False


def _mapped(context: Context, call: ast.Call) -> ast.Expression:
    function = ast.Argument(span=call.span, name=None, value=ast.Name(span=call.span, name=call.function))
    return context.value(context, ast.Call(span=call.span, function="map", arguments=(function, *call.arguments)))


def _expanded(context: Context, call: ast.Call, function: ast.Function) -> ast.Expression:
    dimensions: dict[str, Size] = {}
    with context.nested(Scope(context.program)):
        for parameter, argument in zip(function.parameters, call.arguments, strict=True):
            _bind(context, dimensions, parameter, argument.value)
            declared = resolve_type(context, parameter.type).resolved
            if declared is None or not _accepts(context, parameter, declared, argument.value):
                return call
        result = resolve_type(context, function.result).resolved
    if result is None:
        return call
    return replace(call, function=_instance(context, function, dimensions).name, type=result)


def _bind(
    context: Context, dimensions: dict[str, Size], parameter: ast.FunctionParameter, argument: ast.Expression
) -> None:
    """Enters the dimensions that a parameter names, with the extents of its argument."""
    actual: tuple[Dimension, ...] = argument.type.shape if isinstance(argument.type, ArrayType) else ()
    for extent, dimension in zip(parameter.type.shape, actual, strict=False):
        name = own_dimension(context, extent)
        if name is not None and name not in dimensions and not isinstance(dimension, Bounded):
            dimensions[name] = dimension
            context.scope.add(Symbol(name, "dimension", SizeType(dimension), extent.span, used=True))


def own_dimension(context: Context, extent: ast.Extent) -> str | None:
    """The name that an extent of a `fn`'s parameter introduces: any but a parameter of the compressor."""
    if not isinstance(extent.size, ast.Name):
        return None
    symbol = context.program.find(extent.size.name)
    return None if symbol is not None and symbol.kind == "parameter" else extent.size.name


def _accepts(
    context: Context, parameter: ast.FunctionParameter, declared: ArrayType, argument: ast.Expression
) -> bool:
    actual = argument.type
    if isinstance(actual, ArrayType) and context.same_shape(actual.shape, declared.shape):
        if computes_as(actual.element) == computes_as(declared.element):
            return True
    message = f"`{parameter.name}` needs {declared}, got {described(actual)}"
    context.report("E0106", message, argument.span)
    return False


def _instance(context: Context, function: ast.Function, dimensions: dict[str, Size]) -> Instance:
    key = (function.name, tuple(sorted(dimensions.items())))
    if key not in context.instances:
        earlier = sum(name == function.name for name, _ in context.instances)
        name = f"{function.name}@{earlier + 1}" if earlier else function.name
        context.instances[key] = Instance(name, function, key[1])
    return context.instances[key]
