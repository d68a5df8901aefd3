"""The verifier: every legal program passes, and for every rule there is a program that breaks that rule alone."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from illegal_programs import ILLEGAL, LEGAL

from compll.codegen import ir
from compll.codegen.text import parse_ir
from compll.codegen.verify import verify
from compll.diagnostics import InternalError
from compll.dtypes import U32
from tests.strategies import cases


def complaint(program: ir.Program) -> str:
    with pytest.raises(InternalError) as error:
        verify(program)
    return str(error.value)


def test_the_legal_program_is_legal():
    verify(parse_ir(LEGAL))


@settings(max_examples=150, deadline=None)
@given(cases())
def test_random_programs_are_legal(case):
    verify(case.program)


@pytest.mark.parametrize("rule", ILLEGAL)
def test_one_illegal_program_for_each_rule(rule):
    old, new, message = ILLEGAL[rule]
    assert LEGAL.count(old) >= 1
    program = parse_ir(LEGAL.replace(old, new, 1))
    with pytest.raises(InternalError, match=message) as error:
        verify(program)
    assert str(error.value).startswith(("function `", "state `"))


def encode(*operations: ir.Operation, outputs: tuple[ir.Port, ...] = ()) -> ir.Program:
    """A program around operations that the text form cannot spell."""
    program = parse_ir("program p\ngradient flat [n] named n\n")
    function = ir.Function(name="encode", inputs=(), operations=operations, outputs=outputs)
    return replace(program, functions=(function,))


def test_use_before_definition():
    x = ir.Value(name="x", dtype=U32)
    assert "`x`: is used before it is defined" in complaint(encode(outputs=(ir.Port(role="cut", name="c", value=x),)))
    sort = ir.Sort(result=replace(x, name="y"), source=x)
    assert "function `encode`: `x`: is used before it is defined" in complaint(encode(sort))


def test_a_use_says_what_the_definition_says():
    program = parse_ir(LEGAL)
    function = program.functions[0]
    port = function.outputs[-1]
    changed = replace(port, value=replace(port.value, dtype=U32, shape=function.inputs[0].value.shape))
    broken = replace(function, outputs=(*function.outputs[:-1], changed))
    message = complaint(replace(program, functions=(broken, *program.functions[1:])))
    assert "`cut`: was defined as u32, is used as u32[rows, cols]" in message


def test_a_sweep_needs_a_sink_and_a_count_its_definition():
    assert "a sweep needs a sink" in complaint(encode(ir.Sweep(shape=(), body=(), sinks=())))
    one = ir.Statement(name="x", dtype=U32, opcode="const", attributes=(("value", 1),))
    write = ir.Write(result=ir.Value(name="v", dtype=U32), value="x")
    (n,) = encode().gradient.shape
    assert "its count `c` is used before it is defined" in complaint(
        encode(ir.Sweep(shape=(n,), count="c", body=(one,), sinks=(write,)))
    )
    assert "only a one-dimensional space is bounded" in complaint(
        encode(ir.Sweep(shape=(n, n), count="c", body=(one,), sinks=(write,)))
    )
    assert "a space has at most two dimensions, got 3" in complaint(
        encode(ir.Sweep(shape=(n, n, n), body=(one,), sinks=(write,)))
    )


def test_a_custom_combine_needs_an_identity():
    program = parse_ir(LEGAL)
    sweep = program.functions[0].operations[0]
    assert isinstance(sweep, ir.Sweep)
    sinks = tuple(
        replace(s, combine=replace(s.combine, identity=None)) if isinstance(s, ir.Fold) and s.value == "x" else s
        for s in sweep.sinks
    )
    function = program.functions[0]
    broken = replace(function, operations=(replace(sweep, sinks=sinks), *function.operations[1:]))
    message = complaint(replace(program, functions=(broken, *program.functions[1:])))
    assert "`own`: a custom combine needs an identity" in message
