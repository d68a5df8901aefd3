"""Reads the text form of the IR (see `text.py`) by recursive descent; for tests, dumps and people who edit programs."""

from __future__ import annotations

from typing import Any

from compll.codegen import ir
from compll.codegen.text_function import FunctionReader
from compll.codegen.text_tokens import Tokens
from compll.sizes import Size


def parse_ir(text: str) -> ir.Program:
    """The program that `print_ir` wrote. Raises CompllError with the line, what was needed and what was found."""
    tokens = Tokens(text)
    program = _program(tokens)
    tokens.take("end of text")
    return program


def _program(t: Tokens) -> ir.Program:
    t.expect("program")
    name = t.take("name")
    t.end()
    gradient = _gradient(t)
    parts: dict[str, list[Any]] = {w: [] for w in ("parameter", "size", "state", "field", "trait", "function")}
    readers = {"parameter": _parameter, "size": _named_size, "state": _state, "field": _field, "trait": _trait}
    while t.peek() in readers:
        word = t.take("name")
        parts[word].append(readers[word](t))
        t.end()
    feedback = t.accept("feedback")
    if feedback:
        t.end()
    while t.accept("function"):
        parts["function"].append(FunctionReader(t).function())
    return ir.Program(
        name=name, gradient=gradient, parameters=tuple(parts["parameter"]), sizes=tuple(parts["size"]),
        states=tuple(parts["state"]), fields=tuple(parts["field"]), traits=tuple(parts["trait"]), feedback=feedback,
        functions=tuple(parts["function"]),
    )  # fmt: skip


def _gradient(t: Tokens) -> ir.GradientView:
    t.expect("gradient")
    kind: Any = t.word("flat, matrix or blocks", ("flat", "matrix", "blocks"))
    t.expect("[")
    shape = t.listed(t.size)
    t.expect("]", "named")
    names = t.listed(lambda: t.take("name"))
    t.end()
    return ir.GradientView(kind=kind, shape=shape, names=tuple(None if n == "_" else n for n in names))


def _parameter(t: Tokens) -> ir.Parameter:
    name = t.take("name")
    t.expect(":")
    return ir.Parameter(name=name, dtype=t.dtype())


def _named_size(t: Tokens) -> tuple[str, Size]:
    name = t.take("name")
    t.expect("=")
    return name, t.size()


def _state(t: Tokens) -> ir.StateSpec:
    name = t.take("name")
    t.expect(":")
    dtype, shape, _ = t.type()
    initial = t.take("name") if t.accept("=") else None
    return ir.StateSpec(name=name, dtype=dtype, shape=shape, initial=initial)


def _field(t: Tokens) -> ir.Field:
    name = t.take("name")
    t.expect(":")
    dtype, shape, _ = t.type()
    ascending = None
    if t.accept("ascending", "("):
        ascending = t.size()
        t.expect(")")
    count_of = t.take("name") if t.accept("counted", "by") else None
    return ir.Field(name=name, dtype=dtype, shape=shape, ascending=ascending, count_of=count_of)


def _trait(t: Tokens) -> str:
    return t.take("name")
