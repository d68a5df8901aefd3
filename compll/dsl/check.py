"""The checker: an untyped tree in, a typed tree and warnings out, or all errors of the file at once.

What a typed tree promises: every expression has a type. A `SizeType` carries its value in the program's own names
(dimensions, parameters, named sizes). Calls have their operands in order and their options by name (see
`check_primitives`). A `fn` whose parameters name dimensions appears once for each binding of them, as `name` and
`name@2`, with every size in terms of the program; a `fn` of scalars that is called on arrays is a `map`.
"""

from __future__ import annotations

from dataclasses import replace

from compll.diagnostics import CompllError, Diagnostic
from compll.dsl import ast
from compll.dsl import check_declarations as declarations
from compll.dsl.check_expressions import value
from compll.dsl.check_limits import check_limits
from compll.dsl.check_operators import described
from compll.dsl.check_payload import payload_fields, record_of, returned_fields
from compll.dsl.check_program_functions import check_functions, function_table
from compll.dsl.check_statements import Returning, body, warn_unused
from compll.dsl.check_types import resolve_type
from compll.dsl.context import Context
from compll.dsl.facts import call_graph, facts_of_functions
from compll.dsl.parameters import parameter_values
from compll.dsl.scope import Scope, Symbol
from compll.dsl.types import ArrayType, Poison, Type
from compll.dtypes import F32

__all__ = ["check", "parameter_values"]


def check(module: ast.Module) -> tuple[ast.Module, tuple[Diagnostic, ...]]:
    """The typed tree and the warnings, in source order. Raises CompllError with all errors, in source order."""
    compressor = module.compressor
    program = Scope()
    functions, problems = function_table(compressor)
    graph = call_graph(functions)
    check_limits(compressor, functions, graph)
    context = Context(
        value=value,
        program=program,
        scope=program,
        functions=functions,
        facts=facts_of_functions(functions, graph),
        problems=problems,
        poisoned_functions=set(functions).difference(*graph.levels),
    )
    typed = _compressor(context, compressor)
    found = sorted(dict.fromkeys(context.problems), key=lambda d: d.span.start if d.span else 0)
    errors = [d for d in found if d.severity == "error"]
    if errors:
        raise CompllError(errors)
    return replace(module, compressor=typed), tuple(found)


def _compressor(context: Context, compressor: ast.Compressor) -> ast.Compressor:
    declarations.builtin_sizes(context)
    params = tuple(declarations.parameter(context, p) for p in compressor.params)
    gradient = declarations.gradient(context, compressor.encode)
    states = declarations.states(context, compressor.states, compressor.encode)
    encode, payload = _encode(context, compressor, gradient)
    decode = _decode(context, compressor, payload, gradient)
    compressor = replace(
        compressor,
        params=params,
        functions=check_functions(context),
        feedback=declarations.feedback(context, compressor.feedback),
        states=states,
        payload=payload,
        encode=encode,
        decode=decode,
    )
    compressor = replace(compressor, traits=declarations.traits(context, compressor))
    _compare_draws(context)
    _warn(context, compressor)
    return compressor


# --- encode ----------------------------------------------------------------------------------------------------------


def _encode(
    context: Context, compressor: ast.Compressor, gradient: ast.TypeExpression
) -> tuple[ast.Encode, tuple[ast.PayloadField, ...]]:
    encode = compressor.encode
    context.place = "encode"
    with context.nested(Scope(context.program)):
        type_ = gradient.resolved or Poison()
        context.define(Symbol(encode.gradient, "gradient", type_, encode.span))
        statements, final = body(context, encode.body, encode)
        payload = payload_fields(context, compressor.payload)
        if final is not None:
            statements.append(_encode_return(context, compressor, payload, gradient, final))
        warn_unused(context)
    return replace(encode, type=gradient, body=tuple(statements)), payload


def _encode_return(
    context: Context,
    compressor: ast.Compressor,
    payload: tuple[ast.PayloadField, ...],
    gradient: ast.TypeExpression,
    final: Returning,
) -> ast.Statement:
    if isinstance(final, ast.ReturnFields):
        if not payload:
            context.report("E0119", "fields are returned, but the compressor declares no payload", final.span)
        return returned_fields(context, final, payload)
    if payload:
        names = ", ".join(f"{field.name}: ..." for field in payload)
        hint = f"write `return {{ {names} }};`"
        context.report("E0119", "encode must return the fields of the payload", final.span, hint=hint)
        return final
    return _dense_return(context, final, gradient, "encode without a payload")


def _dense_return(context: Context, final: ast.Return, gradient: ast.TypeExpression, who: str) -> ast.Return:
    result = context.value(context, final.value, F32)
    wanted = gradient.resolved
    if wanted is not None and not isinstance(result.type, Poison):
        if not isinstance(result.type, ArrayType) or not context.same_type(result.type, wanted):
            message = f"{who} must return {wanted}, got {described(result.type)}"
            context.report("E0118", message, final.value.span, hint=_widening_hint(context, result.type, wanted))
    return replace(final, value=result)


def _widening_hint(context: Context, got: Type | None, wanted: ArrayType) -> str:
    """What to write where only the element type is another: narrow values widen by a cast only."""
    if not isinstance(got, ArrayType) or not context.same_type(replace(got, element=wanted.element), wanted):
        return ""
    return f"convert the elements: `{wanted.element}(...)`"


# --- decode ----------------------------------------------------------------------------------------------------------


def _decode(
    context: Context,
    compressor: ast.Compressor,
    payload: tuple[ast.PayloadField, ...],
    gradient: ast.TypeExpression,
) -> ast.Decode | None:
    decode = compressor.decode
    if decode is None:
        if payload:
            context.report("E0135", "a compressor with a payload needs a `decode`", compressor.payload[0].span)
        return None
    if not payload:
        context.report("E0135", "a `decode` needs a payload, and none is declared", decode.span)
    context.place = "decode"
    with context.nested(Scope(context.program)):
        declared = _decode_type(context, decode, gradient)
        context.define(Symbol(decode.payload, "payload", record_of(payload), decode.span))
        statements, final = body(context, decode.body, decode)
        if isinstance(final, ast.ReturnFields):
            context.report("E0119", "decode returns one array, not fields", final.span)
        elif final is not None:
            statements.append(_dense_return(context, final, declared, "decode"))
        warn_unused(context)
    return replace(decode, type=declared, body=tuple(statements))


def _decode_type(context: Context, decode: ast.Decode, gradient: ast.TypeExpression) -> ast.TypeExpression:
    declared = resolve_type(context, decode.type)
    given, wanted = declared.resolved, gradient.resolved
    if given is not None and wanted is not None and not context.same_type(given, wanted):
        message = f"decode must give what encode takes, {wanted}, got {given}"
        context.report("E0118", message, decode.type.span)
        return replace(declared, resolved=None)
    return declared


# --- the program as a whole ------------------------------------------------------------------------------------------


def _compare_draws(context: Context) -> None:
    """The i-th shared draw of encode and that of decode are one stream, so they must be the same draw."""
    for first, second in zip(context.draws["encode"], context.draws["decode"], strict=False):
        if first is None or second is None:
            return
        alike = len(first.extents) == len(second.extents) and all(
            context.same_size(a, b) for a, b in zip(first.extents, second.extents, strict=True)
        )
        if first.call.function != second.call.function or not alike:
            message = (
                f"shared draws differ: encode draws `{first.call.span.text}` (line {first.call.span.line}), "
                f"decode `{second.call.span.text}`"
            )
            context.report("E0137", message, second.call.span)


def _warn(context: Context, compressor: ast.Compressor) -> None:
    if compressor.decode is not None:
        for field in compressor.payload:
            if field.name not in context.fields_read:
                context.warn("W0201", f"field `{field.name}` is never read by decode", field.span)
    for symbol in context.program.symbols.values():
        if symbol.kind in ("parameter", "state", "size") and not symbol.used and symbol.span is not None:
            context.warn("W0203", f"{symbol.kind} `{symbol.name}` is never used", symbol.span)
