"""Operations of random programs, whose results join the values that others may read."""

from __future__ import annotations

from hypothesis import strategies as st

from compll.codegen import ir
from compll.dtypes import BOOL, F32
from compll.sizes import Size
from tests.random_ir.bodies import Body
from tests.random_ir.growing import NUMBERS, Growing
from tests.random_ir.sinks import random_sink


def random_sweep(growing: Growing, shape: tuple[Size, ...], count: str | None) -> ir.Sweep:
    """Any body with any sinks."""
    body = Body(growing, shape, count)
    for _ in range(growing.draw(st.integers(1, 6))):
        body.step()
    sinks = tuple(random_sink(body) for _ in range(growing.draw(st.integers(1, 3))))
    results = [v for s in sinks for v in ir.sink_results(s)]
    hidden = {s.count.name for s in sinks if isinstance(s, ir.Keep)}
    growing.values += [v for v in results if v.name not in hidden]
    return ir.Sweep(shape=shape, count=count, body=tuple(body.statements), sinks=sinks, origin="a line")


def whole_arrays(growing: Growing) -> list[ir.Operation]:
    """A sorted or transposed array, and a sweep that may read it; or nothing."""
    sources = [v for v in growing.values if v.dtype in NUMBERS and v.shape and not v.count]
    if not sources or growing.draw(st.booleans()):
        return []
    source = growing.choose(sources)
    turned = len(source.shape) == 2 and bool(growing.draw(st.booleans()))
    result = growing.value(source.dtype, source.shape[::-1] if turned else source.shape)
    growing.values.append(result)
    if turned:
        operation: ir.Operation = ir.Transpose(result=result, source=source, origin="a line")
    else:
        descending = bool(growing.draw(st.booleans()))
        operation = ir.Sort(result=result, source=source, descending=descending, origin="a line")
    return [operation, random_sweep(growing, result.shape, None)]


def loop(growing: Growing, initial: ir.Value) -> ir.Loop:
    """Up to three times: s = s * 0.5 + something, while the sum is not above a bound."""
    names = ("carried", "going", "halved", "final")
    parameter, going, halved, final = (ir.Value(name=n, dtype=F32, shape=initial.shape) for n in names)
    going = ir.Value(name="going", dtype=BOOL)
    load = ir.Statement(name="x", dtype=F32, opcode="load", source=parameter)
    half = ir.Statement(name="h", dtype=F32, opcode="const", attributes=(("value", 0.5),))
    small = ir.Statement(name="p", dtype=BOOL, opcode="le", args=("x", "h"))
    product = ir.Statement(name="y", dtype=F32, opcode="mul", args=("x", "h"))
    test = ir.Fold(results=(going,), combine=ir.Combine(kind="or"), value="p")
    head = ir.Sweep(shape=initial.shape, body=(load, half, small), sinks=(test,))
    write = ir.Write(result=halved, value="y")
    body = ir.Sweep(shape=initial.shape, body=(load, half, product), sinks=(write,))
    growing.values.append(final)
    carried = ir.Carried(initial=initial, parameter=parameter, yielded=halved, result=final)
    return ir.Loop(limit=3, carried=(carried,), head=(head,), condition=going, body=(body,), origin="repeat")
