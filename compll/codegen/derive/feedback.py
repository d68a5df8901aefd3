"""Feedback: `encode` on sanitised gradients, with a residual in memory, and with one that is formed on the fly.

Eager: acc = g + residual; encode(acc); residual = acc - decode(payload). Where decode is elementwise the residual need
not be stored: *lazy* feedback keeps acc and the payload of the step before, and forms the residual as it is read. The
numbers are the same, bit for bit; a quantiser then moves 12 bytes an element instead of 20.
"""

from __future__ import annotations

from dataclasses import replace

from compll.codegen import ir
from compll.codegen.derive.parts import Names, Operations, elementwise, inlined, load_gradient
from compll.codegen.derive.scatters import is_distinct, last_scatter, onto
from compll.dtypes import BOOL, F32, U32
from compll.sizes import Var


def sanitised(encode: ir.Function) -> ir.Function:
    names = Names(encode)
    seen = encode.inputs[0].value
    raw = names.value("gradient", seen)
    prologue, finite = load_gradient(names, seen, raw, None)
    return replace(
        encode,
        inputs=(replace(encode.inputs[0], value=raw), *encode.inputs[1:]),
        operations=(*prologue, *encode.operations),
        outputs=(*encode.outputs, ir.Port(role="finite", name="finite", value=finite)),
    )


def with_feedback(encode: ir.Function, decode: ir.Function | None) -> ir.Function:
    """acc = g + residual; encode(acc); residual = acc - decode(payload)."""
    names = Names(encode)
    acc = encode.inputs[0].value
    raw = names.value("gradient", acc)
    old = names.value("residual", acc)
    new = names.value("new_residual", acc)
    prologue, finite = load_gradient(names, acc, raw, old)
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


def _residual(
    names: Names, encode: ir.Function, decode: ir.Function | None, acc: ir.Value, new: ir.Value
) -> Operations:
    if decode is None:
        decoded = next(p.value for p in encode.outputs if p.role == "out")
        return (elementwise("sub", acc, decoded, new),)
    made = {(p.role, p.name): p.value.name for p in encode.outputs}
    operations, decoded = inlined(names, decode, {p.value.name: made[p.role, p.name] for p in decode.inputs})
    scatter = last_scatter(operations, decoded)
    if scatter is not None and is_distinct(scatter, (*encode.operations, *operations)):
        return (*operations[:-1], onto(scatter, acc, new, "sub"))
    return (*operations, elementwise("sub", acc, decoded, new))


# --- lazy ------------------------------------------------------------------------------------------------------------

#: Opcodes that make a decode more than a function of the codes at one position.
_NOT_ELEMENTWISE = frozenset(("load_at", "uniform", "normal", "choose", "sample_index"))


def is_elementwise(decode: ir.Function) -> bool:
    """Whether decode maps the codes at a position to the element there, with nothing counted, drawn or gathered."""
    writes = all(
        isinstance(operation, ir.Sweep)
        and all(isinstance(sink, ir.Write) for sink in operation.sinks)
        and not any(statement.opcode in _NOT_ELEMENTWISE for statement in operation.body)
        for operation in decode.operations
    )
    return writes and not any(port.role == "count" or port.value.count for port in decode.inputs)


def with_lazy_feedback(encode: ir.Function, decode: ir.Function, *, padded: bool) -> ir.Function:
    """`residual` holds acc, in and out; the ports `previous` are the fields that the step before sent.

    `padded` says that the view's last block may reach beyond the gradient.
    """
    names = Names(encode)
    acc = encode.inputs[0].value
    raw, old, last = names.value("gradient", acc), names.value("residual", acc), names.value("last_acc", acc)
    ports, before = _formed(names, decode, last, old, padded=padded)
    prologue, finite = load_gradient(names, acc, raw, old)
    return replace(
        encode,
        name="encode_with_lazy_feedback",
        inputs=(
            replace(encode.inputs[0], value=raw),
            ir.Port(role="residual", name="residual", value=last),
            *ports,
            *encode.inputs[1:],
        ),
        operations=(*before, *prologue, *encode.operations),
        outputs=(
            *encode.outputs,
            ir.Port(role="residual", name="residual", value=acc),
            ir.Port(role="finite", name="finite", value=finite),
        ),
    )


def lazy_residual(encode: ir.Function, decode: ir.Function, *, padded: bool) -> ir.Function:
    """The residual that lazy feedback keeps, as a dense array: out = acc - decode(previous payload)."""
    names = Names(decode)
    seen = encode.inputs[0].value
    last, residual = names.value("last_acc", seen), names.value("residual", seen)
    ports, operations = _formed(names, decode, last, residual, padded=padded)
    return ir.Function(
        name="lazy_residual",
        inputs=(ir.Port(role="residual", name="residual", value=last), *ports),
        operations=operations,
        outputs=(ir.Port(role="out", name="out", value=residual),),
    )


def _formed(
    names: Names, decode: ir.Function, last: ir.Value, residual: ir.Value, *, padded: bool
) -> tuple[tuple[ir.Port, ...], Operations]:
    """Ports for the previous payload, and residual = last - decode(previous)."""
    ports = tuple(
        ir.Port(role="previous", name=p.name, value=names.value(f"previous_{p.name}", p.value)) for p in decode.inputs
    )
    mapping = {old.value.name: new.value.name for old, new in zip(decode.inputs, ports, strict=True)}
    operations, decoded = inlined(names, decode, mapping)
    return ports, (*operations, _difference(last, decoded, residual, padded=padded))


def _difference(last: ir.Value, decoded: ir.Value, residual: ir.Value, *, padded: bool) -> ir.Sweep:
    """residual = last - decoded; 0 in the padding of the last block, whatever its codes say."""
    sweep = elementwise("sub", last, decoded, residual)
    if not padded:
        return sweep
    mask = (
        ir.Statement(name="i", dtype=U32, opcode="position", attributes=(("axis", "flat"),)),
        ir.Statement(name="numel", dtype=U32, opcode="size", attributes=(("value", Var("numel")),)),
        ir.Statement(name="inside", dtype=BOOL, opcode="lt", args=("i", "numel")),
        ir.Statement(name="zero", dtype=F32, opcode="const", attributes=(("value", 0.0),)),
        ir.Statement(name="kept", dtype=F32, opcode="select", args=("inside", "c", "zero")),
    )
    return replace(sweep, body=(*sweep.body, *mask), sinks=(ir.Write(result=residual, value="kept"),))
