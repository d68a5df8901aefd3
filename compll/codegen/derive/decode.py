"""`decode_add`: out = out + decode(payload)."""

from __future__ import annotations

from dataclasses import replace

from compll.codegen import ir
from compll.codegen.derive.parts import Names, elementwise
from compll.codegen.derive.scatters import is_distinct, last_scatter, onto


def decode_add(decode: ir.Function, distinct: frozenset[str]) -> ir.Function:
    """out = out + decode(payload)."""
    names = Names(decode)
    decoded = decode.outputs[0].value
    old = names.value("sum", decoded)
    new = names.value("new_sum", decoded)
    scatter = last_scatter(decode.operations, decoded)
    fields = {p.value.name for p in decode.inputs if p.role == "field" and p.name in distinct}
    if scatter is not None and is_distinct(scatter, decode.operations, fields):
        operations = (*decode.operations[:-1], onto(scatter, old, new, "add"))
    else:
        operations = (*decode.operations, elementwise("add", old, decoded, new))
    return replace(
        decode,
        name="decode_add",
        inputs=(ir.Port(role="out", name="out", value=old), *decode.inputs),
        operations=operations,
        outputs=(replace(decode.outputs[0], value=new),),
    )
