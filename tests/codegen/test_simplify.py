"""Scalar algebra that changes no bit, dead code, and equal operations done once."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compll.codegen import ir
from compll.codegen.convert import canonical, storage
from compll.codegen.passes import share
from compll.codegen.passes.body import BodyBuilder
from compll.codegen.passes.eliminate import eliminate_dead
from compll.codegen.passes.simplify import simplify_bodies
from compll.codegen.scalar import apply
from compll.dtypes import BOOL, F16, F32, I32, U32, DType, uint
from compll.sizes import Num, Var
from tests.codegen.build import Body, N, array, assert_same_meaning, flat_program, folded, mapped, port
from tests.codegen.samples import top_k
from tests.strategies import AWKWARD


class Algebra:
    """A builder with one unknown of each type."""

    def __init__(self) -> None:
        self.builder = BodyBuilder()
        self.unknown = {t: self.builder.make(f"x_{t}", t, "load", source=array(f"x_{t}", N, dtype=t)) for t in TYPES}

    def const(self, value: ir.Scalar, dtype: DType) -> str:
        return self.builder.make("c", dtype, "const", value=value)

    def value(self, name: str) -> object:
        statement = self.builder.statements[name]
        assert statement.opcode == "const", statement
        return statement.attribute("value")


TYPES = (F32, I32, U32, BOOL, F16)


@pytest.mark.parametrize(
    ("opcode", "dtype", "constant", "on_right", "vanishes"),
    [
        ("mul", F32, 1.0, True, True),
        ("mul", F32, 1.0, False, True),
        ("mul", F32, 0.0, True, False),  # 0 * NaN, 0 * -1
        ("add", F32, 0.0, True, False),  # -0 + 0 is 0
        ("add", F32, -0.0, True, True),
        ("sub", F32, 0.0, True, True),
        ("sub", F32, 0.0, False, False),
        ("sub", F32, -0.0, True, False),
        ("div", F32, 1.0, True, True),
        ("div", F32, 1.0, False, False),
        ("add", I32, 0, False, True),
        ("shl", U32, 0, True, True),
        ("shl", U32, 0, False, False),
        ("bitor", U32, 0, True, True),
    ],
)
def test_neutral_elements(opcode: str, dtype: DType, constant: ir.Scalar, on_right: bool, vanishes: bool) -> None:
    algebra = Algebra()
    x, c = algebra.unknown[dtype], algebra.const(constant, dtype)
    result = algebra.builder.make("r", dtype, opcode, *((x, c) if on_right else (c, x)))
    assert (result == x) is vanishes


@pytest.mark.parametrize("opcode", ["add", "sub", "mul", "div", "min", "max", "rem", "lt", "ne"])
@given(a=st.sampled_from(AWKWARD), b=st.sampled_from(AWKWARD))
@settings(max_examples=40, deadline=None)
def test_constants_fold_to_what_the_interpreter_computes(opcode: str, a: float, b: float) -> None:
    algebra = Algebra()
    dtype = BOOL if ir.OPCODES[opcode].kind == "compare" else F32
    found = algebra.value(algebra.builder.make("r", dtype, opcode, algebra.const(a, F32), algebra.const(b, F32)))
    with np.errstate(all="ignore"):
        expected = apply(opcode, dtype, [np.asarray(v, np.float32) for v in (a, b)])
    assert canonical(np.asarray(found, storage(dtype))).tobytes() == canonical(expected).tobytes()


@pytest.mark.parametrize(
    ("source", "value", "target", "expected"),
    [
        (F32, 2.7, uint(2), 2),
        (F32, 9.0, uint(2), 3),
        (F32, -1.0, U32, 0),
        (I32, -5, F32, -5.0),
        (F32, 1e30, F16, 65504.0),
    ],
)
def test_casts_of_constants(source: DType, value: ir.Scalar, target: DType, expected: ir.Scalar) -> None:
    algebra = Algebra()
    assert algebra.value(algebra.builder.make("r", target, "cast", algebra.const(value, source))) == expected


def test_a_constant_size_is_a_constant() -> None:
    algebra = Algebra()
    assert algebra.value(algebra.builder.make("k", F32, "size", value=Num(12))) == 12.0
    assert algebra.builder.statements[algebra.builder.make("n", F32, "size", value=Var("n"))].opcode == "size"


def test_zeros_of_different_sign_are_different_constants() -> None:
    algebra = Algebra()
    assert algebra.const(0.0, F32) != algebra.const(-0.0, F32)
    assert algebra.const(0.0, F32) == algebra.const(0.0, F32)


def test_selects() -> None:
    algebra = Algebra()
    make, x, flag = algebra.builder.make, algebra.unknown[F32], algebra.unknown[BOOL]
    one, two = algebra.const(1.0, F32), algebra.const(2.0, F32)
    true, false = algebra.const(True, BOOL), algebra.const(False, BOOL)
    assert make("r", F32, "select", true, one, two) == one
    assert make("r", F32, "select", flag, x, x) == x
    assert make("r", BOOL, "select", flag, true, false) == flag
    turned = algebra.builder.statements[make("r", F32, "select", make("n", BOOL, "not", flag), one, two)]
    assert turned.args == (flag, two, one)


def test_a_simpler_statement_has_the_type_of_the_old_one() -> None:
    """`select` of f32 may choose between halves; what replaces it is still f32."""
    algebra = Algebra()
    half, flag = algebra.unknown[F16], algebra.unknown[BOOL]
    result = algebra.builder.statements[algebra.builder.make("r", F32, "select", flag, half, half)]
    assert (result.dtype, result.opcode, result.args) == (F32, "cast", (half,))


def program(operations: list[ir.Operation], *fields: ir.Value) -> ir.Program:
    declared = tuple(ir.Field(name=v.name, dtype=v.dtype, shape=v.shape) for v in fields)
    return flat_program("p", operations, [port("field", v.name, v) for v in fields], declared, None)


def test_equal_statements_are_one() -> None:
    out, g = array("out", N), array("g", N)
    body = Body()
    left, right = body.add("abs", body.load(g)), body.add("abs", body.load(g))
    before = program([body.sweep((N,), ir.Write(result=out, value=body.add("mul", left, right)))], out)
    (sweep,) = simplify_bodies(before).functions[0].operations
    assert [s.opcode for s in sweep.body] == ["load", "abs", "mul"]
    assert_same_meaning(before, simplify_bodies(before), 50)


def test_a_gather_at_the_own_position_is_a_load() -> None:
    out, g = array("out", N), array("g", N)
    body = Body()
    value = body.at(g, body.add("position", dtype=U32, axis="flat"))
    before = program([body.sweep((N,), ir.Write(result=out, value=value))], out)
    (sweep,) = simplify_bodies(before).functions[0].operations
    assert [s.opcode for s in sweep.body] == ["load"]


def test_dead_results_go_and_carried_ones_with_them() -> None:
    unused, sorted_ = array("unused", N), array("sorted", N)
    before = top_k()
    function = before.functions[0]
    dead = (mapped(unused, "neg", array("g", N)), ir.Sort(result=sorted_, source=unused))
    with_dead = ir.Function(
        name="encode", inputs=function.inputs, operations=(*function.operations, *dead),
        outputs=tuple(p for p in function.outputs if p.name != "value"),
    )  # fmt: skip
    (alive, top) = eliminate_dead(replace_functions(before, with_dead)).functions[0].operations
    assert isinstance(top.sinks[0], ir.Top) and top.sinks[0].carried == ()
    assert len(alive.sinks) == 2


def replace_functions(program_: ir.Program, *functions: ir.Function) -> ir.Program:
    return replace(program_, functions=functions)


def test_equal_reductions_are_done_once() -> None:
    first, second, total, g = array("first"), array("second"), array("total"), array("g", N)
    before = program([folded(first, "max", g), folded(second, "max", g), mapped(total, "add", first, second)], total)
    after = share.share_equal(before)
    assert len(after.functions[0].operations) == 2
    assert_same_meaning(before, after, 40)


def test_equal_reductions_that_go_out_both_stay() -> None:
    first, second, g = array("first"), array("second"), array("g", N)
    before = program([folded(first, "max", g), folded(second, "max", g)], first, second)
    assert share.share_equal(before) is before
