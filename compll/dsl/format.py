"""The canonical text of a program: `parse(format_module(m)) == m` for every tree of the parser.

Declarations come in one order, bodies as written; comments inside the program are not kept, those at its head are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from compll.dsl import ast
from compll.sizes import Num

_INDENT = "    "
#: Binding strength of binary operators, loosest first; the levels of `grammar.lark`.
_LEVELS = (
    ("||",), ("&&",), ("==", "!="), ("<", "<=", ">", ">="), ("|",), ("^",), ("&",), ("<<", ">>"), ("+", "-"),
    ("*", "/", "%"),
)  # fmt: skip
_STRENGTH = {operator: level for level, operators in enumerate(_LEVELS, start=1) for operator in operators}
_UNARY = len(_LEVELS) + 1
_POSTFIX = _UNARY + 1
_SUM = _STRENGTH["+"]


def format_module(module: ast.Module) -> str:
    """The whole file, ending with a line break."""
    header = [f"// {line}".rstrip() for line in module.header]
    return "\n".join([*header, *_compressor(module.compressor)]) + "\n"


# --- declarations ----------------------------------------------------------------------------------------------------


def _compressor(compressor: ast.Compressor) -> Iterator[str]:
    yield f"compressor {compressor.name} {{"
    groups = [list(_declarations(compressor)), *([f] for f in map(_function, compressor.functions))]
    groups += [[_payload(compressor.payload)] if compressor.payload else [], [_encode(compressor.encode)]]
    groups += [[_decode(compressor.decode)] if compressor.decode else []]
    texts = ["\n".join(group) for group in groups if group]
    yield "\n\n".join(_indented(text) for text in texts)
    yield "}"


def _declarations(compressor: ast.Compressor) -> Iterator[str]:
    yield from map(_parameter, compressor.params)
    if compressor.feedback is not None:
        yield f"feedback {compressor.feedback.kind}{_if(compressor.feedback.condition)};"
    if compressor.traits:
        yield f"trait {', '.join(t.name + _if(t.condition) for t in compressor.traits)};"
    for state in compressor.states:
        initial = f" = {expression(state.initial)}" if state.initial is not None else ""
        yield f"state {state.name}: {type_text(state.type)}{initial};"


def _parameter(parameter: ast.Parameter) -> str:
    allowed = ""
    if parameter.range is not None:
        left, right = "(" if parameter.range.low_open else "[", ")" if parameter.range.high_open else "]"
        allowed = f" in {left}{expression(parameter.range.low)}, {expression(parameter.range.high)}{right}"
    element, default = _element(parameter.element), expression(parameter.default)
    return f"param {parameter.name}: {element} = {default}{allowed};"


def _if(condition: ast.Expression | None) -> str:
    return f" if {expression(condition)}" if condition is not None else ""


def _payload(fields: Iterable[ast.PayloadField]) -> str:
    return _block("payload", (f"{field.name}: {_alternatives(field)};" for field in fields))


def _alternatives(field: ast.PayloadField) -> str:
    return " else ".join(type_text(type_) + _if(condition) for condition, type_ in field.alternatives)


def _function(function: ast.Function) -> str:
    parameters = ", ".join(f"{p.name}: {type_text(p.type)}" for p in function.parameters)
    head = f"fn {function.name}({parameters}) -> {type_text(function.result)}"
    return _block(head, map(_statement, function.body))


def _encode(encode: ast.Encode) -> str:
    return _block(f"encode({encode.gradient}: {type_text(encode.type)})", map(_statement, encode.body))


def _decode(decode: ast.Decode) -> str:
    return _block(f"decode({decode.payload}) -> {type_text(decode.type)}", map(_statement, decode.body))


def _block(head: str, lines: Iterable[str]) -> str:
    body = [_indented(line) for line in lines]
    return "\n".join([f"{head} {{", *body, "}"]) if body else f"{head} {{}}"


def _indented(text: str) -> str:
    return "\n".join(_INDENT + line if line else line for line in text.split("\n"))


# --- types and statements --------------------------------------------------------------------------------------------


def type_text(type_: ast.TypeExpression) -> str:
    """A type as written."""
    shape = ", ".join(("<= " if e.bounded else "") + expression(e.size) for e in type_.shape)
    element = _element(type_.element) if type_.ascending is None else f"ascending({expression(type_.ascending)})"
    return f"{element}[{shape}]" if shape else element


def _element(element: ast.TypeName) -> str:
    return f"{element.name}<{_operand(element.width, _SUM)}>" if element.width is not None else element.name


def _statement(statement: ast.Statement) -> str:
    match statement:
        case ast.SizeDefinition(name=name, value=value):
            return f"size {name} = {expression(value)};"
        case ast.Let(name=name, value=value):
            return f"let {name} = {expression(value)};"
        case ast.Assign(name=name, value=value):
            return f"{name} = {expression(value)};"
        case ast.Clear(state=state, index=index):
            return f"clear({state}, {expression(index)});"
        case ast.Repeat(limit=limit, condition=condition, body=body):
            return _block(f"repeat <= {expression(limit)} while {expression(condition)}", map(_statement, body))
        case ast.ReturnFields(fields=fields):
            texts = [f"{field.name}: {expression(field.value)}" for field in fields]
            return f"return {{ {', '.join(texts)} }};" if texts else "return {};"
        case ast.Return(value=value):
            return f"return {expression(value)};"


# --- expressions -----------------------------------------------------------------------------------------------------


def expression(node: ast.Expression) -> str:
    """An expression with the fewest parentheses."""
    match node:
        case ast.Number():
            return _number(node)
        case ast.Boolean(value=value):
            return "true" if value else "false"
        case ast.Name(name=name):
            return name
        case ast.Member(record=record, name=name):
            return f"{_operand(record, _POSTFIX)}.{name}"
        case ast.Element(array=array, index=index):
            return f"{_operand(array, _POSTFIX)}[{expression(index)}]"
        case ast.Unary(operator=operator, operand=operand):
            return f"{operator}{_operand(operand, _UNARY)}"
        case ast.Binary(operator=operator, left=left, right=right):
            level = _STRENGTH[operator]
            return f"{_operand(left, level)} {operator} {_operand(right, level + 1)}"
        case ast.Conditional(condition=condition, then=then, otherwise=otherwise):
            last = f"({expression(otherwise)})" if isinstance(otherwise, ast.Lambda) else expression(otherwise)
            return f"{_operand(condition, 1)} ? {expression(then)} : {last}"
        case ast.Call(function=function, arguments=arguments):
            return f"{function}({', '.join(map(_argument, arguments))})"
        case ast.Cast(element=element, operand=operand):
            return f"{_element(element)}({expression(operand)})"
        case ast.Lambda(parameters=parameters, body=body):
            return f"|{', '.join(parameters)}| {expression(body)}"


def _argument(argument: ast.Argument) -> str:
    return f"{argument.name} = {expression(argument.value)}" if argument.name else expression(argument.value)


def _operand(node: ast.Expression, level: int) -> str:
    """The expression, in parentheses if it binds looser than its place needs."""
    return expression(node) if _strength(node) >= level else f"({expression(node)})"


def _strength(node: ast.Expression) -> int:
    match node:
        case ast.Lambda() | ast.Conditional():
            return 0
        case ast.Binary(operator=operator):
            return _STRENGTH[operator]
        case ast.Unary():
            return _UNARY
        case ast.Number():
            return _UNARY  # `0 .x` would read as the number `0.`
        case _:
            return _POSTFIX


def _number(number: ast.Number) -> str:
    if not number.is_float:
        return f"{int(number.value)}"
    text = str(Num(number.value))
    return text if any(c in text for c in ".en") else f"{text}.0"
