"""Combinations of reductions and scans as objects of include/compll/combine.cuh."""

from __future__ import annotations

from dataclasses import dataclass

from compll.codegen import ir
from compll.codegen.emit.cuda_context import CTYPE_BYTES, Context, lambda_lines
from compll.codegen.emit.cuda_spelling import RESERVED, CudaSpelling
from compll.codegen.emit.expr import Level, Line, body_lines, compute_ctype, constant
from compll.codegen.emit.names import Names
from compll.dtypes import DType

_TYPED = {
    "add": "Add", "min": "Minimum", "max": "Maximum", "argmin": "ArgMinimum", "argmax": "ArgMaximum",
}  # fmt: skip
_PLAIN = {"and": "All", "or": "Any", "moments": "Moments"}


@dataclass(frozen=True, slots=True, kw_only=True)
class CombineText:
    """`object` is an expression in the scope of `declarations`; `state` the C type of a partial result."""

    declarations: list[str]
    object: str
    state: str
    state_bytes: int


def combine_text(combine: ir.Combine, dtype: DType, context: Context, name: str) -> CombineText:
    """The combination of values of an element type; a program's own is declared under `name`."""
    ctype = compute_ctype(dtype)
    kind = combine.kind
    if kind == "custom":
        return _custom(combine, dtype, context, name)
    if kind in _PLAIN:
        state, nbytes = ("compll::MomentsState", 24) if kind == "moments" else ("bool", 1)
        return CombineText(declarations=[], object=f"compll::{_PLAIN[kind]}()", state=state, state_bytes=nbytes)
    state, nbytes = ctype, CTYPE_BYTES[ctype]
    if kind in ("argmin", "argmax"):
        order = "uint64_t" if nbytes == 8 else "uint32_t"
        state, nbytes = f"compll::Extreme<{order}>", 16
    return CombineText(declarations=[], object=f"compll::{_TYPED[kind]}<{ctype}>()", state=state, state_bytes=nbytes)


def _custom(combine: ir.Combine, dtype: DType, context: Context, name: str) -> CombineText:
    ctype = compute_ctype(dtype)
    spelling = CudaSpelling(memory=context.memory, shape=())
    known = {
        argument: Line(Level.ELEMENT, dtype, f"{side}", side)
        for argument, side in ((combine.left, "left"), (combine.right, "right"))
    }
    lines = body_lines(combine.body, spelling, Names(RESERVED), known)
    body = [lines[s.name].declaration for s in combine.body]
    body.append(f"return {lines[combine.result].name};")
    join = lambda_lines(f"{name}_join", f"{ctype} left, {ctype} right", body)
    assert combine.identity is not None
    neutral = constant(combine.identity, dtype)
    declared = f"const auto {name} = compll::custom<{ctype}>({neutral}, {name}_join);"
    return CombineText(
        declarations=[*spelling.generators.values(), *join, declared], object=name, state=ctype,
        state_bytes=CTYPE_BYTES[ctype],
    )  # fmt: skip


def result_texts(combine: ir.Combine, results: tuple[ir.Value, ...], state: str) -> list[tuple[ir.Value, str]]:
    """Each result with its text, from the name of a final state."""
    match combine.kind:
        case "moments":
            return list(zip(results, (f"{state}.mean", f"{state}.m2"), strict=True))
        case "argmin" | "argmax":
            return [(results[0], f"{state}.position")]
        case _:
            return [(results[0], state)]
