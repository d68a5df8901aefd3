"""Pieces that derived functions are made of: fresh names, the sanitised gradient, one function inside another."""

from __future__ import annotations

from dataclasses import replace

from compll.codegen import ir
from compll.codegen.rewrite import rename, value_names, values
from compll.dtypes import BOOL, F32, DType

Operations = tuple[ir.Operation, ...]


class Names:
    """Fresh value names beside those of a function."""

    def __init__(self, function: ir.Function) -> None:
        self._taken = value_names(function)

    def fresh(self, wish: str) -> str:
        name, suffix = wish, 1
        while name in self._taken:
            suffix += 1
            name = f"{wish}_{suffix}"
        self._taken.add(name)
        return name

    def value(self, wish: str, like: ir.Value) -> ir.Value:
        return replace(like, name=self.fresh(wish))

    def scalar(self, wish: str, dtype: DType) -> ir.Value:
        return ir.Value(name=self.fresh(wish), dtype=dtype)


def load_gradient(
    names: Names, seen: ir.Value, raw: ir.Value, residual: ir.Value | None
) -> tuple[Operations, ir.Value]:
    """What makes the array that the program sees of the raw gradient, and the flag that all of it was finite."""
    finite = names.scalar("finite", BOOL)
    body = [ir.Statement(name="g", dtype=F32, opcode="load", source=raw)]
    if residual is None:
        body.append(ir.Statement(name="kept", dtype=F32, opcode="const", attributes=(("value", 0.0),)))
        acc = "g"
    else:
        body.append(ir.Statement(name="kept", dtype=F32, opcode="load", source=residual))
        body.append(ir.Statement(name="acc", dtype=F32, opcode="add", args=("g", "kept")))
        acc = "acc"
    body.append(ir.Statement(name="ok", dtype=BOOL, opcode="is_finite", args=(acc,)))
    body.append(ir.Statement(name="seen", dtype=F32, opcode="select", args=("ok", acc, "kept")))
    sinks: tuple[ir.Sink, ...] = (
        ir.Write(result=seen, value="seen"),
        ir.Fold(results=(finite,), combine=ir.Combine(kind="and"), value="ok"),
    )
    origin = "gradient + residual" if residual else "gradient"
    return (ir.Sweep(shape=seen.shape, body=tuple(body), sinks=sinks, origin=origin),), finite


def inlined(names: Names, function: ir.Function, mapping: dict[str, str]) -> tuple[Operations, ir.Value]:
    """The operations of a decode whose inputs are called as `mapping` says, and what they decode to."""
    for value in values(function.operations):
        if value.name not in mapping:
            mapping[value.name] = names.fresh(value.name)
    return rename(function.operations, mapping), rename(function.outputs[0].value, mapping)


def elementwise(opcode: str, left: ir.Value, right: ir.Value, result: ir.Value) -> ir.Sweep:
    body = (
        ir.Statement(name="a", dtype=F32, opcode="load", source=left),
        ir.Statement(name="b", dtype=F32, opcode="load", source=right),
        ir.Statement(name="c", dtype=F32, opcode=opcode, args=("a", "b")),
    )
    sink = ir.Write(result=result, value="c")
    return ir.Sweep(shape=result.shape, body=body, sinks=(sink,), origin=f"{opcode} decoded")
