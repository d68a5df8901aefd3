"""The IR as text: `print_ir`, and `parse_ir` (in `text_reader.py`) that gives the same program back.

One construct a line, values as `%name` (with their type where they are defined), scalars by bare names:

    sweep [n] {  // let top = topk(g, k, by = abs);
        v: f32 = load %acc
        key: f32 = abs v
        => %top_index: u32[k], %top_value: f32[k] = top(key, k) carrying v
    }
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import assert_never

from compll.codegen import ir
from compll.codegen.text_reader import parse_ir
from compll.sizes import Apply, Num, Size, Var

__all__ = ["parse_ir", "print_ir"]

_INDENT = "    "


def print_ir(program: ir.Program) -> str:
    """The program as text, the same for equal programs."""
    lines = [*_header(program)]
    for function in program.functions:
        lines += ["", f"function {function.name} {{", *_indented(_function(function)), "}"]
    return "\n".join(lines) + "\n"


def print_operations(operations: Iterable[ir.Operation]) -> str:
    """Operations alone, for messages and tests."""
    return "\n".join(line for operation in operations for line in _operation(operation))


def _indented(lines: Iterable[str]) -> Iterator[str]:
    return (_INDENT + line for line in lines)


def _header(program: ir.Program) -> Iterator[str]:
    view = program.gradient
    yield f"program {program.name}"
    yield f"gradient {view.kind} [{_sizes(view.shape)}] named {', '.join(name or '_' for name in view.names)}"
    for parameter in program.parameters:
        yield f"parameter {parameter.name}: {parameter.dtype}"
    for name, size in program.sizes:
        yield f"size {name} = {size}"
    for state in program.states:
        initial = f" = {state.initial}" if state.initial is not None else ""
        yield f"state {state.name}: {_type(state.dtype.name, state.shape)}{initial}"
    for field in program.fields:
        ascending = f" ascending({field.ascending})" if field.ascending is not None else ""
        counted = f" counted by {field.count_of}" if field.count_of is not None else ""
        yield f"field {field.name}: {_type(field.dtype.name, field.shape)}{ascending}{counted}"
    for trait in program.traits:
        yield f"trait {trait}"
    if program.feedback:
        yield "feedback"


def _function(function: ir.Function) -> Iterator[str]:
    for port in function.inputs:
        yield f"in {port.role} {port.name} = {_definition(port.value)}"
    for operation in function.operations:
        yield from _operation(operation)
    for port in function.outputs:
        yield f"out {port.role} {port.name} = %{port.value.name}"


def _operation(operation: ir.Operation) -> Iterator[str]:
    origin = f"  // {operation.origin}" if operation.origin else ""
    match operation:
        case ir.Sweep():
            count = f"; %{operation.count}" if operation.count is not None else ""
            yield f"sweep [{_sizes(operation.shape)}{count}] {{{origin}"
            yield from _indented(_body(operation.body))
            for sink in operation.sinks:
                yield from _indented(_sink(sink))
            yield "}"
        case ir.Loop():
            yield f"loop {operation.limit} {{{origin}"
            yield from _indented(_loop(operation))
            yield "}"
        case ir.MatMul():
            flags = f"{' transpose_left' * operation.transpose_left}{' transpose_right' * operation.transpose_right}"
            operands = f"%{operation.left.name} %{operation.right.name}"
            yield f"{_definition(operation.result)} = matmul {operands}{flags}{origin}"
        case ir.Sort():
            yield _simple("sort", operation, " descending" * operation.descending + origin)
        case ir.Transpose():
            yield _simple("transpose", operation, origin)
        case ir.Orthonormalize():
            yield _simple("orthonormalize", operation, origin)
        case ir.AllReduce():
            yield _simple("all_reduce", operation, origin)
        case _:
            assert_never(operation)


def _simple(word: str, operation: ir.Sort | ir.Transpose | ir.Orthonormalize | ir.AllReduce, rest: str) -> str:
    return f"{_definition(operation.result)} = {word} %{operation.source.name}{rest}"


def _loop(loop: ir.Loop) -> Iterator[str]:
    for carried in loop.carried:
        yield f"carry {_definition(carried.parameter)} = %{carried.initial.name}"
    for operation in loop.head:
        yield from _operation(operation)
    yield f"while %{loop.condition.name}"
    for operation in loop.body:
        yield from _operation(operation)
    for carried in loop.carried:
        yield f"yield %{carried.yielded.name} => {_definition(carried.result)}"


def _body(body: ir.Body) -> Iterator[str]:
    for statement in body:
        words = [statement.opcode, *statement.args]
        if statement.source is not None:
            words.append(f"%{statement.source.name}")
        words += [f"{name}={_attribute(value)}" for name, value in statement.attributes]
        yield f"{statement.name}: {statement.dtype} = {' '.join(words)}"


def _attribute(value: ir.Attribute) -> str:
    match value:
        case bool():
            return str(value).lower()
        case str():
            return f'"{value}"'
        case int() | float():
            return repr(value)
        case Num() | Var() | Apply():
            return f"[{value}]"
        case _:
            assert_never(value)


def _sink(sink: ir.Sink) -> Iterator[str]:
    results = ", ".join(map(_definition, ir.sink_results(sink)))
    match sink:
        case ir.Write():
            yield f"=> {results} = write({sink.value})"
        case ir.Fold():
            yield from _combining(f"=> {results} = fold {sink.combine.kind}({sink.value}){_rows(sink)}", sink.combine)
        case ir.Scan():
            exclusive = " exclusive" * sink.exclusive
            head = f"=> {results} = scan {sink.combine.kind}({sink.value}){exclusive}{_rows(sink)}"
            yield from _combining(head, sink.combine)
        case ir.Keep():
            yield f"=> {results} = keep({sink.predicate}, {sink.limit}){_carrying(sink.carried)}"
        case ir.Top():
            yield f"=> {results} = top({sink.key}, {sink.k}){_rows(sink)}{_carrying(sink.carried)}"
        case ir.Kth():
            yield f"=> {results} = kth({sink.key}, {sink.k}){_rows(sink)}"
        case ir.Put():
            onto = f" onto %{sink.base.name}" if sink.base is not None else ""
            yield f"=> {results} = put({sink.index}, {sink.value}){onto}"
        case _:
            assert_never(sink)


def _combining(head: str, combine: ir.Combine) -> Iterator[str]:
    if combine.kind != "custom":
        yield head
        return
    assert combine.identity is not None
    identity = _attribute(combine.identity)
    yield f"{head} identity={identity} combining {combine.left}, {combine.right} into {combine.result} {{"
    yield from _indented(_body(combine.body))
    yield "}"


def _rows(sink: ir.Fold | ir.Scan | ir.Top | ir.Kth) -> str:
    return " per row" if sink.per_row else ""


def _carrying(carried: tuple[tuple[ir.Value, str], ...]) -> str:
    return f" carrying {', '.join(name for _, name in carried)}" if carried else ""


def _definition(value: ir.Value) -> str:
    return f"%{value.name}: {_type(value.dtype.name, value.shape, value.count)}"


def _type(dtype: str, shape: tuple[Size, ...], count: str | None = None) -> str:
    bound = f"; %{count}" if count is not None else ""
    return f"{dtype}[{_sizes(shape)}{bound}]" if shape else dtype


def _sizes(shape: tuple[Size, ...]) -> str:
    return ", ".join(map(str, shape))
