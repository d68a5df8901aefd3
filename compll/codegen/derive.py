"""Functions that nobody writes by hand: `encode` on sanitised gradients, `encode_with_feedback`, `decode_add`.

Sanitising (numerics.md, "Non-finite"): an element whose sum with the residual is not finite counts as its old residual
(0 without feedback), and the port `finite` is cleared.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from compll.codegen import ir
from compll.codegen.rewrite import definitions, rename, value_names, values
from compll.dtypes import BOOL, F32, DType


def derive(program: ir.Program) -> ir.Program:
    """The program with its derived functions beside those that it had."""
    encode = program.function("encode")
    functions = [f for f in program.functions if f.name != "encode"]
    derived = [_sanitised(encode), _with_feedback(encode, _decode_of(program))]
    decode = _decode_of(program)
    if decode is not None:
        derived.append(_decode_add(decode, _distinct_fields(encode)))
    return replace(program, functions=(*derived, *functions))


def _decode_of(program: ir.Program) -> ir.Function | None:
    return next((f for f in program.functions if f.name == "decode"), None)


# --- encode ----------------------------------------------------------------------------------------------------------


def _sanitised(encode: ir.Function) -> ir.Function:
    names = _Names(encode)
    seen = encode.inputs[0].value
    raw = names.value("gradient", seen)
    prologue, finite = _load_gradient(names, seen, raw, None)
    return replace(
        encode,
        inputs=(replace(encode.inputs[0], value=raw), *encode.inputs[1:]),
        operations=(*prologue, *encode.operations),
        outputs=(*encode.outputs, ir.Port(role="finite", name="finite", value=finite)),
    )


def _with_feedback(encode: ir.Function, decode: ir.Function | None) -> ir.Function:
    """acc = g + residual; encode(acc); residual = acc - decode(payload)."""
    names = _Names(encode)
    acc = encode.inputs[0].value
    raw = names.value("gradient", acc)
    old = names.value("residual", acc)
    new = names.value("new_residual", acc)
    prologue, finite = _load_gradient(names, acc, raw, old)
    tail = _residual(names, encode, decode, acc, new)
    return replace(
        encode,
        name="encode_with_feedback",
        inputs=(
            replace(encode.inputs[0], value=raw),
            ir.Port(role="residual", name="residual", value=old),
            *encode.inputs[1:],
        ),
        operations=(*prologue, *encode.operations, *tail),
        outputs=(
            *encode.outputs,
            ir.Port(role="residual", name="residual", value=new),
            ir.Port(role="finite", name="finite", value=finite),
        ),
    )


def _load_gradient(
    names: _Names, seen: ir.Value, raw: ir.Value, residual: ir.Value | None
) -> tuple[tuple[ir.Operation, ...], ir.Value]:
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


def _residual(
    names: _Names, encode: ir.Function, decode: ir.Function | None, acc: ir.Value, new: ir.Value
) -> tuple[ir.Operation, ...]:
    if decode is None:
        decoded = next(p.value for p in encode.outputs if p.role == "out")
        return (_elementwise("sub", acc, decoded, new),)
    operations, decoded = _inlined(names, encode, decode)
    scatter = _last_scatter(operations, decoded)
    if scatter is not None and _is_distinct(scatter, (*encode.operations, *operations)):
        return (*operations[:-1], _onto(scatter, acc, new, "sub"))
    return (*operations, _elementwise("sub", acc, decoded, new))


def _inlined(
    names: _Names, encode: ir.Function, decode: ir.Function
) -> tuple[tuple[ir.Operation, ...], ir.Value]:
    """decode's operations on the fields that encode has just made."""
    made = {(p.role, p.name): p.value for p in encode.outputs}
    mapping = {p.value.name: made[p.role, p.name].name for p in decode.inputs}
    for value in values(decode.operations):
        if value.name not in mapping:
            mapping[value.name] = names.fresh(value.name)
    return rename(decode.operations, mapping), rename(decode.outputs[0].value, mapping)


# --- decode ----------------------------------------------------------------------------------------------------------


def _decode_add(decode: ir.Function, distinct: frozenset[str]) -> ir.Function:
    """out = out + decode(payload)."""
    names = _Names(decode)
    decoded = decode.outputs[0].value
    old = names.value("sum", decoded)
    new = names.value("new_sum", decoded)
    scatter = _last_scatter(decode.operations, decoded)
    fields = {p.value.name for p in decode.inputs if p.role == "field" and p.name in distinct}
    if scatter is not None and _is_distinct(scatter, decode.operations, fields):
        operations = (*decode.operations[:-1], _onto(scatter, old, new, "add"))
    else:
        operations = (*decode.operations, _elementwise("add", old, decoded, new))
    return replace(
        decode,
        name="decode_add",
        inputs=(ir.Port(role="out", name="out", value=old), *decode.inputs),
        operations=operations,
        outputs=(replace(decode.outputs[0], value=new),),
    )


def _elementwise(opcode: str, left: ir.Value, right: ir.Value, result: ir.Value) -> ir.Sweep:
    body = (
        ir.Statement(name="a", dtype=F32, opcode="load", source=left),
        ir.Statement(name="b", dtype=F32, opcode="load", source=right),
        ir.Statement(name="c", dtype=F32, opcode=opcode, args=("a", "b")),
    )
    sink = ir.Write(result=result, value="c")
    return ir.Sweep(shape=result.shape, body=body, sinks=(sink,), origin=f"{opcode} decoded")


# --- scatters --------------------------------------------------------------------------------------------------------


def _last_scatter(operations: tuple[ir.Operation, ...], decoded: ir.Value) -> ir.Sweep | None:
    """The final operation, if it scatters into zeros and makes `decoded`."""
    match operations[-1] if operations else None:
        case ir.Sweep(sinks=(ir.Put(result=result, base=None),)) as sweep if result == decoded:
            return sweep
    return None


def _onto(scatter: ir.Sweep, base: ir.Value, result: ir.Value, opcode: str) -> ir.Sweep:
    """base (+|-) scatter(index, value), for distinct indices, without the dense array in between."""
    (put,) = scatter.sinks
    assert isinstance(put, ir.Put)
    there, changed = _fresh_statement(scatter.body, "there"), _fresh_statement(scatter.body, "changed")
    body = (
        *scatter.body,
        ir.Statement(name=there, dtype=F32, opcode="load_at", args=(put.index,), source=base),
        ir.Statement(name=changed, dtype=F32, opcode=opcode, args=(there, put.value)),
    )
    return replace(scatter, body=body, sinks=(ir.Put(result=result, base=base, index=put.index, value=changed),))


def _fresh_statement(body: ir.Body, wish: str) -> str:
    taken = {s.name for s in body}
    return next(n for n in (wish, *(f"{wish}_{i}" for i in range(2, len(body) + 3))) if n not in taken)


def _distinct_fields(encode: ir.Function) -> frozenset[str]:
    """The fields whose elements are all different, by how encode makes them."""
    made = definitions(encode.operations)
    return frozenset(p.name for p in encode.outputs if p.role == "field" and _all_different(p.value, made, ()))


def _is_distinct(scatter: ir.Sweep, operations: Iterable[ir.Operation], known: Iterable[str] = ()) -> bool:
    (put,) = scatter.sinks
    assert isinstance(put, ir.Put)
    return _statement_distinct(put.index, scatter.body, definitions(tuple(operations)), tuple(known))


def _all_different(value: ir.Value, made: dict[str, ir.Operation], known: tuple[str, ...]) -> bool:
    if value.name in known:
        return True
    match made.get(value.name):
        case ir.Sweep(body=body, sinks=(sink,)):
            match sink:
                case ir.Top(index=index) | ir.Keep(index=index):
                    return index == value
                case ir.Write(value=scalar):
                    return _statement_distinct(scalar, body, made, known)
    return False


def _statement_distinct(name: str, body: ir.Body, made: dict[str, ir.Operation], known: tuple[str, ...]) -> bool:
    statement = next(s for s in body if s.name == name)
    match statement.opcode:
        case "cast":
            return statement.dtype.kind == "uint" and _statement_distinct(statement.args[0], body, made, known)
        case "choose" | "position":
            return not statement.args
        case "load":
            return statement.source is not None and _all_different(statement.source, made, known)
    return False


class _Names:
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
