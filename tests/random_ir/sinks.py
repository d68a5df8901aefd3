"""Sinks of random sweeps."""

from __future__ import annotations

from hypothesis import strategies as st

from compll.codegen import ir
from compll.dtypes import BOOL, F32, F64, U32
from compll.sizes import Var
from tests.random_ir.bodies import Body
from tests.random_ir.growing import NUMBERS

FOLDS = (*((dtype, kind) for dtype in NUMBERS for kind in ("add", "min", "max")), (BOOL, "and"), (BOOL, "or"))

_CUSTOM = ir.Combine(
    kind="custom", identity=0.0, left="a", right="b", result="c",
    body=(
        ir.Statement(name="m", dtype=F32, opcode="max", args=("a", "b")),
        ir.Statement(name="c", dtype=F32, opcode="abs", args=("m",)),
    ),
)  # fmt: skip


def random_sink(body: Body) -> ir.Sink:
    """A sink of any kind for statements of the body."""
    growing, shape, count = body.growing, body.shape, body.count
    any_scalar = growing.choose(body.statements)
    per_row = len(shape) == 2 and bool(growing.draw(st.booleans()))
    rows = shape[:1] if per_row else ()
    options = ("write", "fold", "moments", "arg", "scan", "custom", "top", "kth", "put")
    k = Var("k")
    match growing.choose(options if len(shape) == 2 or count else (*options, "keep")):
        case "write":
            return ir.Write(result=growing.value(any_scalar.dtype, shape, count), value=any_scalar.name)
        case "fold":
            dtype, kind = growing.choose(FOLDS)
            result = growing.value(dtype, rows)
            return ir.Fold(results=(result,), combine=ir.Combine(kind=kind), value=body.pick(dtype), per_row=per_row)
        case "moments":
            results = (growing.value(F64, rows), growing.value(F64, rows))
            return ir.Fold(
                results=results, combine=ir.Combine(kind="moments"), value=body.pick(F32), per_row=per_row
            )
        case "arg":
            kind = growing.choose(("argmax", "argmin"))
            result, value = growing.value(U32, rows), body.pick(growing.choose(NUMBERS))
            return ir.Fold(results=(result,), combine=ir.Combine(kind=kind), value=value, per_row=per_row)
        case "scan" | "custom" as which:
            combine = _CUSTOM if which == "custom" else ir.Combine(kind=growing.choose(("add", "min", "max")))
            dtype = F32 if which == "custom" else growing.choose(NUMBERS)
            return ir.Scan(
                result=growing.value(dtype, shape, count), combine=combine, value=body.pick(dtype),
                exclusive=bool(growing.draw(st.booleans())), per_row=per_row,
            )  # fmt: skip
        case "keep":
            bounded = growing.value(U32)
            index, carried = growing.value(U32, (k,), bounded.name), growing.value(any_scalar.dtype, (k,), bounded.name)
            return ir.Keep(
                index=index, count=bounded, cut=growing.value(U32), carried=((carried, any_scalar.name),),
                predicate=body.pick(BOOL), limit=k,
            )  # fmt: skip
        case "top":
            index, carried = growing.value(U32, (*rows, k)), growing.value(any_scalar.dtype, (*rows, k))
            key = body.pick(growing.choose(NUMBERS))
            return ir.Top(index=index, carried=((carried, any_scalar.name),), key=key, k=k, per_row=per_row)
        case "kth":
            dtype = growing.choose(NUMBERS)
            return ir.Kth(result=growing.value(dtype, rows), key=body.pick(dtype), k=k, per_row=per_row)
        case _:
            position, dtype = body.add("position", U32, axis="column"), growing.choose(NUMBERS)
            result = growing.value(dtype, (*shape[:-1], k))
            return ir.Put(result=result, base=None, index=position, value=body.pick(dtype))
