"""Statements of a body: definitions, assignments, loops. What a `return` must hold is for `check_program` to say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from compll.dsl import ast
from compll.dsl.check_operators import described, is_integer
from compll.dsl.check_sizes import is_short, mentions_size, size, value_of
from compll.dsl.check_types import computes_as
from compll.dsl.context import Context
from compll.dsl.limits import MAX_ROUNDS
from compll.dsl.scope import WORDS, Symbol, did_you_mean
from compll.dsl.types import ArrayType, Poison, RecordType, SizeType, Type
from compll.dtypes import BOOL
from compll.sizes import Num, Var, substitute, variables

Returning = ast.Return | ast.ReturnFields


def body(
    context: Context, statements: Sequence[ast.Statement], owner: ast.Node
) -> tuple[list[ast.Statement], Returning | None]:
    """The statements before the `return`, typed, and the `return` itself, as written."""
    typed: list[ast.Statement] = []
    for position, statement in enumerate(statements):
        if isinstance(statement, ast.Return | ast.ReturnFields):
            rest = statements[position + 1 :]
            if rest:
                context.report("E0119", "nothing may follow a `return`", rest[0].span)
            return typed, statement
        typed.append(_statement(context, statement))
    context.report("E0119", "a `return` is missing at the end", owner.span)
    return typed, None


def _statement(context: Context, statement: ast.Statement) -> ast.Statement:
    match statement:
        case ast.SizeDefinition():
            return _size_definition(context, statement)
        case ast.Let():
            return _let(context, statement)
        case ast.Assign():
            return _assign(context, statement)
        case ast.Clear():
            return _clear(context, statement)
        case ast.Repeat():
            return _repeat(context, statement)
        case ast.Return() | ast.ReturnFields():
            context.report("E0119", "`return` must not stand inside `repeat`", statement.span)
            return statement


def _size_definition(context: Context, definition: ast.SizeDefinition) -> ast.Statement:
    if context.place == "fn" or context.in_repeat:
        where = "a `fn`" if context.place == "fn" else "`repeat`"
        message = f"`size {definition.name}` must stand in encode or decode itself, not in {where}"
        context.report("E0119", message, definition.span)
    value = size(context, definition.value)
    known = value_of(value)
    symbol = Symbol(definition.name, "size", Poison(), definition.span)
    full = None if known is None else substitute(known, context.definitions)
    if full is not None and is_short(context, full, definition.value):
        context.definitions[definition.name] = full
        symbol.type = SizeType(Var(definition.name))
    _enter_program(context, symbol)
    return replace(definition, value=value)


def _enter_program(context: Context, symbol: Symbol) -> None:
    """A named size is known in the whole compressor."""
    inner = context.scope
    local = inner.find(symbol.name)
    with context.nested(context.program):
        if local is not None and context.program.find(symbol.name) is None and symbol.span is not None:
            where = f"it is defined on line {local.span.line}" if local.span else ""
            context.report("E0104", f"`{symbol.name}` is defined already", symbol.span, label=where)
        else:
            context.define(symbol)


def _let(context: Context, let: ast.Let) -> ast.Statement:
    if mentions_size(context, let.value):
        value = size(context, let.value)
        hint = f"name it with `size {let.name} = ...`, or convert it: `f32(...)`"
        message = f"`{let.value.span.text}` is a size, not a value"
        value = context.wrong(value, "E0117", message, hint=hint)
    else:
        value = context.value(context, let.value)
    context.define(Symbol(let.name, "local", value.type or Poison(), let.span))
    return replace(let, value=value)


def _assign(context: Context, assign: ast.Assign) -> ast.Statement:
    symbol = context.scope.find(assign.name)
    wanted = symbol.type.element if symbol is not None and isinstance(symbol.type, ArrayType) else None
    value = context.value(context, assign.value, wanted)
    assign = replace(assign, value=value)
    if symbol is None or not _assignable(context, assign.name, symbol, assign):
        if symbol is None:
            _unknown_target(context, assign.name, assign)
        return assign
    _agree(context, assign, symbol.type, value.type)
    return assign


def _unknown_target(context: Context, name: str, statement: ast.Statement) -> None:
    hint = did_you_mean(name, context.scope.names()) or f"a new value is named with `let {name} = ...`"
    context.report("E0101", f"unknown name `{name}`", statement.span, hint=hint)


def _assignable(context: Context, name: str, symbol: Symbol, statement: ast.Statement) -> bool:
    if symbol.kind == "state":
        return _state_allowed(context, name, statement)
    if symbol.kind == "local" and context.in_repeat:
        symbol.used = True
        if not isinstance(symbol.type, RecordType):
            return True
        message = f"`{name}` is a record; only numbers and arrays are carried round `repeat`"
        context.report("E0127", message, statement.span)
        return False
    hint = "only a state, or a local value inside `repeat`, takes a new value; use `let` with a new name"
    context.report("E0127", f"`{name}` is {WORDS[symbol.kind]} and takes no new value", statement.span, hint=hint)
    return False


def _state_allowed(context: Context, name: str, statement: ast.Statement) -> bool:
    if context.place == "decode":
        message = f"decode must not write state `{name}`: only encode may"
        context.report("E0122", message, statement.span)
    elif context.place == "fn":
        context.report("E0127", f"a `fn` must not write state `{name}`", statement.span)
    elif context.in_repeat:
        message = f"state `{name}` must not be written inside `repeat`"
        context.report("E0127", message, statement.span, hint="carry a local value and assign the state afterwards")
    else:
        return True
    return False


def _agree(context: Context, assign: ast.Assign, declared: Type, given: Type | None) -> None:
    if isinstance(declared, Poison) or isinstance(given, Poison) or not isinstance(declared, ArrayType):
        return
    if isinstance(given, ArrayType) and context.same_type(declared, given):
        return
    hint = ""
    if isinstance(given, ArrayType) and declared.shape and not given.shape:
        dimensions = ", ".join(map(str, declared.shape))
        hint = f"an array of one value is `fill({dimensions}, value = {assign.value.span.text})`"
    elif isinstance(given, ArrayType) and context.same_shape(declared.shape, given.shape):
        hint = f"convert it: `{declared.element}({assign.value.span.text})`"
    message = f"`{assign.name}` is {declared}, got {described(given)}"
    context.report("E0107", message, assign.value.span, hint=hint)


def _clear(context: Context, clear: ast.Clear) -> ast.Statement:
    index = context.value(context, clear.index)
    clear = replace(clear, index=index)
    symbol = context.scope.find(clear.state)
    if symbol is None or symbol.kind != "state":
        what = f"`{clear.state}`" if symbol is None else f"`{clear.state}`, {WORDS[symbol.kind]}"
        states = [s.name for s in context.program.symbols.values() if s.kind == "state"]
        hint = did_you_mean(clear.state, states)
        context.report("E0127", f"`clear` needs a state, got {what}", clear.span, hint=hint)
        return clear
    symbol.used = True
    if not _state_allowed(context, clear.state, clear):
        return clear
    if isinstance(symbol.type, ArrayType) and not isinstance(index.type, Poison):
        _check_cleared(context, clear, symbol.type, index.type)
    return clear


def _check_cleared(context: Context, clear: ast.Clear, state: ArrayType, index: Type | None) -> None:
    if not isinstance(index, ArrayType) or not is_integer(computes_as(index.element)):
        context.report("E0106", f"`clear` needs indices, got {described(index)}", clear.index.span)
    elif len(index.shape) != len(state.shape) or not index.shape:
        message = f"`clear` needs indices of as many dimensions as {state}, got {index}"
        context.report("E0110", message, clear.index.span)
    elif len(index.shape) == 2 and not context.same_dimension(index.shape[0], state.shape[0]):
        context.report("E0110", f"lengths do not agree: {state} cleared at {index}", clear.index.span)


def _repeat(context: Context, loop: ast.Repeat) -> ast.Statement:
    limit = _limit(context, loop.limit)
    before, context.in_repeat = context.in_repeat, True
    condition = context.value(context, loop.condition)
    if not isinstance(condition.type, Poison) and condition.type != ArrayType(BOOL):
        message = f"the condition of `repeat` must be one bool, got {described(condition.type)}"
        context.report("E0129", message, loop.condition.span, hint="join the elements with `any` or `all`")
    with context.nested():
        statements = tuple(_statement(context, statement) for statement in loop.body)
        warn_unused(context)
    context.in_repeat = before
    return replace(loop, limit=limit, condition=condition, body=statements)


def _limit(context: Context, expression: ast.Expression) -> ast.Expression:
    """The largest number of rounds: fixed when the program is loaded, so of parameters and numbers only."""
    limit = size(context, expression)
    value = value_of(limit)
    if value is not None and not variables(value) <= context.parameter_names():
        message = "the limit of `repeat` must depend on parameters and numbers only"
        context.report("E0116", message, expression.span)
    if isinstance(value, Num) and not 0 <= value.value <= MAX_ROUNDS:
        message = f"the limit of `repeat` must lie in [0, {MAX_ROUNDS}], got {value}"
        context.report("E0108", message, expression.span)
    return limit


def warn_unused(context: Context) -> None:
    """A warning for each local value of this scope that nothing reads."""
    for symbol in context.scope.symbols.values():
        if symbol.kind == "local" and not symbol.used and symbol.span and not isinstance(symbol.type, Poison):
            context.warn("W0202", f"`{symbol.name}` is never used", symbol.span)
