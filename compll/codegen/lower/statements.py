"""Bodies of encode and decode -> operations: names come into scope, states get new values, loops their regions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Union

from compll.codegen import ir
from compll.codegen.lower.arrays import lower_array, lower_binding
from compll.codegen.lower.calls import write
from compll.codegen.lower.context import Binding, Context, size_of
from compll.codegen.lower.scalars import Builder
from compll.codegen.lower.selections import clear
from compll.diagnostics import CompllError, Diagnostic, InternalError
from compll.dsl import ast
from compll.dsl.limits import MAX_ROUNDS
from compll.sizes import evaluate

#: What a body returns: payload fields by name, or one array.
Returned = Union[dict[str, ir.Value], ir.Value, None]


def lower_body(context: Context, statements: Sequence[ast.Statement], scope: dict[str, Binding]) -> Returned:
    """Lower statement by statement; `scope` is changed as names are bound."""
    for statement in statements:
        context.origin = " ".join(statement.span.text.split())
        match statement:
            case ast.SizeDefinition(name=name, value=value):
                context.sizes.define(name, size_of(value))
            case ast.Let(name=name, value=value):
                scope[name] = lower_binding(context, value, scope, name)
            case ast.Assign(name=name, value=value):
                scope[name] = lower_array(context, value, scope, name)
            case ast.Clear(state=state, index=index):
                base = scope[state]
                assert isinstance(base, ir.Value)
                scope[state] = clear(context, base, index, scope)
            case ast.Repeat():
                _repeat(context, statement, scope)
            case ast.ReturnFields(fields=fields):
                return {f.name: lower_array(context, f.value, scope, f.name) for f in fields if f.name is not None}
            case ast.Return(value=value):
                return lower_array(context, value, scope, "out")
    return None


def copy(context: Context, value: ir.Value, wish: str) -> ir.Value:
    """The same elements as a value of their own."""
    builder = Builder(context, value.shape, value.count)
    return write(builder, builder.load(value), wish)


def _repeat(context: Context, loop: ast.Repeat, scope: dict[str, Binding]) -> None:
    """`repeat <= N while condition { ... }`: names of the enclosing scope that the body assigns are carried."""
    carried_names = [n for n in _assigned(loop.body) if n in scope]
    initial = {name: _value(scope[name]) for name in carried_names}
    inner: dict[str, Binding] = dict(scope)
    parameters = {}
    for name, value in initial.items():
        parameters[name] = context.value(name, value.dtype, value.shape, value.count)
        inner[name] = parameters[name]

    outer, origin = context.operations, context.origin
    head: list[ir.Operation] = []
    context.operations = head
    condition = lower_array(context, loop.condition, inner, "going")
    if condition in parameters.values():
        condition = copy(context, condition, "going")
    body: list[ir.Operation] = []
    context.operations = body
    lower_body(context, loop.body, inner)
    yielded: dict[str, ir.Value] = {}
    for name in carried_names:
        value = _value(inner[name])
        own = _defined_in(value, body) and value not in yielded.values()
        yielded[name] = value if own else copy(context, value, name)
    context.operations, context.origin = outer, origin

    carried = []
    for name in carried_names:
        start = initial[name]
        result = context.value(name, start.dtype, start.shape, start.count)
        carried.append(
            ir.Carried(initial=start, parameter=parameters[name], yielded=yielded[name], result=result)
        )
        scope[name] = result
    context.emit(
        ir.Loop(
            limit=_limit(context, loop), carried=tuple(carried), head=tuple(head), condition=condition,
            body=tuple(body), origin=origin,
        )
    )  # fmt: skip


def _limit(context: Context, loop: ast.Repeat) -> int:
    """The largest number of rounds, now that its parameters have values."""
    limit = evaluate(context.sizes.resolve(size_of(loop.limit)), {})
    if not 0 <= limit <= MAX_ROUNDS:
        message = f"the limit of `repeat` must lie in [0, {MAX_ROUNDS}], got {limit:g}"
        raise CompllError(Diagnostic(code="E0108", message=message, span=loop.limit.span))
    return int(limit)


def _assigned(statements: Sequence[ast.Statement]) -> list[str]:
    names = [s.name for s in statements if isinstance(s, ast.Assign)]
    names += [s.state for s in statements if isinstance(s, ast.Clear)]
    return list(dict.fromkeys(names))


def _value(binding: Binding) -> ir.Value:
    if not isinstance(binding, ir.Value):
        raise InternalError("only arrays and scalars are carried round a loop")
    return binding


def _defined_in(value: ir.Value, operations: Sequence[ir.Operation]) -> bool:
    return any(value in ir.results(operation) for operation in operations)
