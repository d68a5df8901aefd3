"""Functions that nobody writes by hand: `encode` on sanitised gradients, feedback in two forms, `decode_add`.

Sanitising (numerics.md, "Non-finite"): an element whose sum with the residual is not finite counts as its old residual
(0 without feedback), and the port `finite` is cleared.
"""

from __future__ import annotations

from dataclasses import replace

from compll.codegen import ir
from compll.codegen.derive.decode import decode_add
from compll.codegen.derive.feedback import (
    is_elementwise,
    lazy_residual,
    sanitised,
    with_feedback,
    with_lazy_feedback,
)
from compll.codegen.derive.scatters import distinct_fields


def derive(program: ir.Program) -> ir.Program:
    """The program with its derived functions beside those that it had."""
    encode = program.function("encode")
    decode = next((f for f in program.functions if f.name == "decode"), None)
    derived = [sanitised(encode), with_feedback(encode, decode)]
    if decode is not None:
        derived.append(decode_add(decode, distinct_fields(encode)))
        if is_elementwise(decode) and not any(field.ascending for field in program.fields):
            padded = program.gradient.kind == "blocks"
            derived += [form(encode, decode, padded=padded) for form in (with_lazy_feedback, lazy_residual)]
    return replace(program, functions=(*derived, *(f for f in program.functions if f.name != "encode")))


__all__ = ["derive"]
