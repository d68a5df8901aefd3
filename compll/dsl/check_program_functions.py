"""The `fn`s of a program: which there are, each checked as written, then typed for every binding of its dimensions."""

from __future__ import annotations

from dataclasses import replace

from compll.diagnostics import Diagnostic
from compll.dsl import ast
from compll.dsl.check_functions import own_dimension
from compll.dsl.check_operators import described
from compll.dsl.check_statements import body, warn_unused
from compll.dsl.check_types import computes_as, resolve_type
from compll.dsl.context import Context, Instance
from compll.dsl.facts import call_graph
from compll.dsl.limits import MAX_LEVELS
from compll.dsl.scope import Scope, Symbol
from compll.dsl.types import ArrayType, Bounded, Poison, SizeType
from compll.dtypes import NAMED
from compll.primitives import PRIMITIVES
from compll.sizes import Size, Var


def function_table(compressor: ast.Compressor) -> tuple[dict[str, ast.Function], list[Diagnostic]]:
    """The `fn`s by name, and what is wrong with their names."""
    table: dict[str, ast.Function] = {}
    problems = []
    for function in compressor.functions:
        name = function.name
        if name in PRIMITIVES or name in NAMED or name in table:
            what = f"on line {table[name].span.line}" if name in table else "by the language"
            message = f"`{name}` is defined already, {what}"
            problems.append(Diagnostic(code="E0104", message=message, span=function.span))
        table.setdefault(name, function)
    return table, problems


def check_functions(context: Context) -> tuple[ast.Function, ...]:
    """Every `fn` checked as written; then the typed instances that the program calls, in order of first use."""
    context.place = "fn"
    _check_graph(context)
    requested = dict(context.instances)
    for function in context.functions.values():
        if function.name not in context.poisoned_functions:
            _typed(context, function, {})
    context.instances = requested
    typed = _instances(context)
    used = {name for name, _ in context.instances}
    for name, function in context.functions.items():
        if name not in used:
            context.warn("W0203", f"fn `{name}` is never used", function.span)
    return typed


def _check_graph(context: Context) -> None:
    graph = call_graph(context.functions)
    if graph.cycle:
        shown = " -> ".join(f"`{name}`" for name in (*graph.cycle, graph.cycle[0]))
        message = f"a `fn` must not call itself: {shown}"
        context.report("E0126", message, context.functions[graph.cycle[0]].span)
    elif len(graph.levels) > MAX_LEVELS:
        message = f"`fn`s call each other more than {MAX_LEVELS} levels deep"
        context.report("E0126", message, context.functions[graph.levels[MAX_LEVELS][0]].span)


def _instances(context: Context) -> tuple[ast.Function, ...]:
    """The instances, and those that their bodies call in turn."""
    if any(problem.severity == "error" for problem in context.problems):
        return ()
    typed: dict[str, ast.Function] = {}
    while pending := [i for i in context.instances.values() if i.name not in typed]:
        for instance in pending:
            typed[instance.name] = _instance(context, instance)
    return tuple(typed.values())


def _instance(context: Context, instance: Instance) -> ast.Function:
    with context.quiet() as problems:
        result = _typed(context, instance.function, dict(instance.dimensions))
    context.problems += [p for p in problems if p.severity == "error"]
    return replace(result, name=instance.name)


def _typed(context: Context, function: ast.Function, dimensions: dict[str, Size]) -> ast.Function:
    """The function with its body typed; a dimension that is not bound stands for itself."""
    with context.nested(Scope(context.program)) as outer:
        for extent in (e for p in function.parameters for e in p.type.shape):
            name = own_dimension(context, extent)
            if name is not None:
                bound = SizeType(dimensions.get(name, Var(name)))
                outer.add(Symbol(name, "dimension", bound, extent.span, used=True))
        parameters = tuple(replace(p, type=resolve_type(context, p.type)) for p in function.parameters)
        result = resolve_type(context, function.result)
        with context.nested() as scope:
            for p in parameters:
                scope.add(Symbol(p.name, "argument", p.type.resolved or Poison(), p.span, used=True))
            statements = _body(context, function, result.resolved)
    return replace(function, parameters=parameters, result=result, body=statements)


def _body(context: Context, function: ast.Function, result: ArrayType | None) -> tuple[ast.Statement, ...]:
    for statement in function.body:
        if isinstance(statement, ast.Repeat):
            context.report("E0119", "`repeat` must stand in encode or decode, not in a `fn`", statement.span)
    statements, final = body(context, function.body, function)
    if isinstance(final, ast.ReturnFields):
        context.report("E0119", "a `fn` returns one value, not fields", final.span)
    elif final is not None:
        value = context.value(context, final.value, result.element if result is not None else None)
        statements.append(replace(final, value=value))
        if result is not None and not isinstance(value.type, Poison):
            _compare_result(context, function, result, value)
    warn_unused(context)
    return tuple(statements)


def _compare_result(context: Context, function: ast.Function, result: ArrayType, value: ast.Expression) -> None:
    given = value.type
    fits = (
        isinstance(given, ArrayType)
        and computes_as(given.element) == computes_as(result.element)
        and context.same_shape(given.shape, result.shape)
        and not any(isinstance(dimension, Bounded) for dimension in given.shape)
    )
    if not fits:
        message = f"`{function.name}` must return {result}, got {described(given)}"
        context.report("E0107", message, value.span)
