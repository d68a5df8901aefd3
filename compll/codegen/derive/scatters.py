"""Scatters at the end of decode: put onto another array at once where their indices are all different."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from compll.codegen import ir
from compll.codegen.rewrite import definitions
from compll.dtypes import F32


def last_scatter(operations: tuple[ir.Operation, ...], decoded: ir.Value) -> ir.Sweep | None:
    """The final operation, if it scatters into zeros and makes `decoded`."""
    match operations[-1] if operations else None:
        case ir.Sweep(sinks=(ir.Put(result=result, base=None),)) as sweep if result == decoded:
            return sweep
    return None


def onto(scatter: ir.Sweep, base: ir.Value, result: ir.Value, opcode: str) -> ir.Sweep:
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


def distinct_fields(encode: ir.Function) -> frozenset[str]:
    """The fields whose elements are all different, by how encode makes them."""
    made = definitions(encode.operations)
    return frozenset(p.name for p in encode.outputs if p.role == "field" and _all_different(p.value, made, ()))


def is_distinct(scatter: ir.Sweep, operations: Iterable[ir.Operation], known: Iterable[str] = ()) -> bool:
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
