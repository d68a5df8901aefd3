"""What a scalar statement is equal to, bit for bit: constants, and the identities that IEEE arithmetic keeps.

No `x + 0` (which turns -0 into 0) and no reordering of float sums; NaN has no identity (docs/numerics.md), so a rule
may exchange one NaN for another.
"""

from __future__ import annotations

import math

import numpy as np

from compll.codegen import ir
from compll.codegen.convert import cast, storage
from compll.codegen.scalar import apply
from compll.dtypes import BOOL
from compll.sizes import Num

Statements = dict[str, ir.Statement]

_IDEMPOTENT = ("abs", "floor", "ceil", "round", "trunc", "sign")


def simplified(statement: ir.Statement, known: Statements) -> ir.Statement | str:
    """An equal statement that is simpler, or the name of an equal one among `known`; else the statement itself."""
    opcode, args = statement.opcode, statement.args
    if opcode == "size":
        return _constant_size(statement)
    if statement.source is not None or not args or ir.OPCODES[opcode].kind == "draw":
        return statement
    operands = [known[name] for name in args]
    if all(operand.opcode == "const" for operand in operands):
        return _constant(statement, operands)
    match opcode:
        case "select":
            return _select(statement, known)
        case "and" | "or":
            return _junction(statement, operands)
        case "neg" | "not" | "bitnot":
            return operands[0].args[0] if operands[0].opcode == opcode else statement
        case "abs" if operands[0].opcode == "neg" and statement.dtype.kind == "float":
            return simplified(_with_args(statement, operands[0].args), known)
        case "cast":
            return args[0] if operands[0].dtype == statement.dtype else statement
        case "min" | "max" | "bitand" | "bitor" if args[0] == args[1]:
            return args[0]
        case _ if opcode in _IDEMPOTENT and operands[0].opcode == opcode:
            return args[0]
    return _neutral(statement, operands)


def _with_args(statement: ir.Statement, args: tuple[str, ...]) -> ir.Statement:
    return ir.Statement(name=statement.name, dtype=statement.dtype, opcode=statement.opcode, args=args)


def constant(name: str, statement: ir.Statement, value: ir.Scalar) -> ir.Statement:
    """`value` as a statement of the same dtype."""
    return ir.Statement(name=name, dtype=statement.dtype, opcode="const", attributes=(("value", value),))


def _constant_size(statement: ir.Statement) -> ir.Statement:
    size = statement.attribute("value")
    if not isinstance(size, Num):
        return statement
    return constant(statement.name, statement, _python(cast(np.asarray(size.value, np.float64), statement.dtype)))


def _constant(statement: ir.Statement, operands: list[ir.Statement]) -> ir.Statement:
    """The statement evaluated by the interpreter's own rules."""
    values = [np.asarray(o.attribute("value"), dtype=storage(o.dtype)) for o in operands]
    with np.errstate(all="ignore"):
        value = apply(statement.opcode, statement.dtype, values)
    return constant(statement.name, statement, _python(value))


def _python(value: object) -> ir.Scalar:
    scalar = np.asarray(value).item()
    assert isinstance(scalar, (bool, int, float))
    return scalar


def _select(statement: ir.Statement, known: Statements) -> ir.Statement | str:
    condition, then, otherwise = statement.args
    choice = known[condition]
    if then == otherwise:
        return then
    if choice.opcode == "const":
        return then if choice.attribute("value") else otherwise
    if choice.opcode == "not":
        return _with_args(statement, (choice.args[0], otherwise, then))
    if statement.dtype == BOOL and (known[then].opcode, known[otherwise].opcode) == ("const", "const"):
        return condition if known[then].attribute("value") else statement
    return statement


def _junction(statement: ir.Statement, operands: list[ir.Statement]) -> ir.Statement | str:
    """`and`, `or` of equal operands or with a constant."""
    first, second = operands
    if first.name == second.name:
        return first.name
    for one, other in ((first, second), (second, first)):
        if one.opcode == "const":
            absorbs = bool(one.attribute("value")) == (statement.opcode == "or")
            return one.name if absorbs else other.name
    return statement


def _neutral(statement: ir.Statement, operands: list[ir.Statement]) -> ir.Statement | str:
    """x * 1, x / 1, x - 0, and for integers x + 0, shifts by 0, | 0 and ^ 0."""
    if len(operands) != 2 or ir.OPCODES[statement.opcode].kind not in ("arithmetic", "bits"):
        return statement
    first, second = operands
    for one, other in ((second, first), (first, second)):
        if one.opcode == "const" and _is_neutral(statement, one, on_right=one is second):
            return other.name
    return statement


def _is_neutral(statement: ir.Statement, one: ir.Statement, *, on_right: bool) -> bool:
    value = one.attribute("value")
    assert isinstance(value, (bool, int, float))
    integer = statement.dtype.kind in ("int", "uint")
    plus_zero = value == 0 and math.copysign(1.0, value) > 0
    match statement.opcode:
        case "mul":
            return value == 1
        case "div":
            return on_right and value == 1
        case "sub":
            return on_right and plus_zero
        case "add":
            return value == 0 and (integer or not plus_zero)
        case "bitor" | "bitxor":
            return value == 0
        case "shl" | "shr":
            return on_right and value == 0
    return False
