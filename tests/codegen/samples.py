"""Small unoptimised programs, built as lowering builds them: one primitive a sweep."""

from __future__ import annotations

from compll.codegen import ir
from compll.dtypes import BOOL, F32, F64, U32, uint
from compll.sizes import Num
from tests.codegen.build import (  # fmt: skip
    COLS,
    K_OF_COLS,
    ROWS,
    Body,
    K,
    N,
    array,
    flat_program,
    folded,
    mapped,
    port,
    scatter_decode,
)


def top_k(ascending: bool = False) -> ir.Program:
    """index, value of the k largest magnitudes."""
    g, index, value = array("g", N), array("top_index", K, dtype=U32), array("top_value", K)
    body = Body()
    x = body.load(g)
    key = body.add("abs", x)
    top = body.sweep((N,), ir.Top(index=index, carried=((value, x),), key=key, k=K))
    fields = (
        ir.Field(name="index", dtype=U32, shape=(K,), ascending=N if ascending else None),
        ir.Field(name="value", dtype=F32, shape=(K,)),
    )
    outputs = [port("field", "index", index), port("field", "value", value)]
    return flat_program("top_k", [top], outputs, fields, scatter_decode((N,), (K,), U32))


def row_top_k() -> ir.Program:
    """The k largest magnitudes of each row, with u16 indices."""
    g, index = array("g", ROWS, COLS), array("top_index", ROWS, K, dtype=U32)
    value = array("top_value", ROWS, K)
    narrow = array("index", ROWS, K, dtype=uint(16))
    body = Body()
    x = body.load(g)
    sink = ir.Top(index=index, carried=((value, x),), key=body.add("abs", x), k=K, per_row=True)
    top = body.sweep((ROWS, COLS), sink)
    fields = (
        ir.Field(name="index", dtype=uint(16), shape=(ROWS, K)),
        ir.Field(name="value", dtype=F32, shape=(ROWS, K)),
    )
    outputs = [port("field", "index", narrow), port("field", "value", value)]
    decode = scatter_decode((ROWS, COLS), (ROWS, K), uint(16))
    view = ir.GradientView(kind="matrix", shape=(ROWS, COLS), names=("rows", "cols"))
    operations = [top, mapped(narrow, "cast", index)]
    return flat_program("row_top_k", operations, outputs, fields, decode, sizes=(("k", K_OF_COLS),), view=view)


def sign_mean() -> ir.Program:
    """One bit and the mean of each side."""
    g = array("g", N)
    positive, highs, lows = array("positive", N, dtype=BOOL), array("highs", N), array("lows", N)
    count, high_sum, low_sum = array("count"), array("high_sum"), array("low_sum")
    high, low, code = array("high"), array("low"), array("code", N, dtype=uint(1))
    body = Body()
    ones = body.add("select", body.load(positive), body.const(1.0), body.const(0.0))
    count_fold = body.sweep((N,), ir.Fold(results=(count,), combine=ir.Combine(kind="add"), value=ones))
    operations = [
        mapped(positive, "gt", g, 0.0),
        mapped(highs, "select", positive, g, 0.0),
        mapped(lows, "select", positive, 0.0, g),
        count_fold,
        folded(high_sum, "add", highs),
        folded(low_sum, "add", lows),
        mapped(high, "div", high_sum, count),
        mapped(low, "div", low_sum, count),
        mapped(code, "cast", positive),
    ]
    fields = (
        ir.Field(name="high", dtype=F32, shape=()),
        ir.Field(name="low", dtype=F32, shape=()),
        ir.Field(name="code", dtype=uint(1), shape=(N,)),
    )
    outputs = [port("field", f.name, v) for f, v in zip(fields, (high, low, code))]
    return flat_program("sign_mean", operations, outputs, fields, _two_level_decode())


def _two_level_decode() -> ir.Function:
    high, low, code, out = array("p_high"), array("p_low"), array("p_code", N, dtype=uint(1)), array("out", N)
    body = Body()
    one = body.add("eq", body.load(code), body.const(1, U32), dtype=BOOL)
    value = body.add("select", one, body.load(high), body.load(low))
    sweep = body.sweep((N,), ir.Write(result=out, value=value))
    inputs = (port("field", "high", high), port("field", "low", low), port("field", "code", code))
    return ir.Function(name="decode", inputs=inputs, operations=(sweep,), outputs=(port("out", "out", out),))


def ternary() -> ir.Program:
    """Stochastic ternary codes scaled by min(clip * std, max)."""
    g, draws, scaled = array("g", N), array("draws", N), array("scaled", N)
    mean, m2 = array("mean", dtype=F64), array("m2", dtype=F64)
    magnitude, top, std, scale = array("magnitude", N), array("top"), array("std"), array("scale")
    code = array("code", N, dtype=uint(2))
    body = Body()
    moments = body.sweep(
        (N,), ir.Fold(results=(mean, m2), combine=ir.Combine(kind="moments"), value=body.load(g))
    )
    finish = Body()
    variance = finish.add("div", finish.load(m2), finish.add("size", dtype=F64, value=N), dtype=F64)
    root = finish.add("cast", finish.add("sqrt", variance, dtype=F64))
    draw = Body()
    uniform = draw.add("uniform", stream=0, shared=False, bits=32)
    coded = Body()
    x, u = coded.load(scaled), coded.load(draws)
    up = coded.add("lt", u, x, dtype=BOOL)
    down = coded.add("lt", u, coded.add("neg", x), dtype=BOOL)
    zero, one, two = (coded.const(i, U32) for i in range(3))
    ternary_code = coded.add("select", up, two, coded.add("select", down, zero, one, dtype=U32), dtype=U32)
    operations = [
        moments,
        finish.sweep((), ir.Write(result=std, value=root)),
        mapped(magnitude, "abs", g),
        folded(top, "max", magnitude),
        mapped(scale, "min", std, top),
        draw.sweep((N,), ir.Write(result=draws, value=uniform)),
        mapped(scaled, "div", g, scale),
        coded.sweep((N,), ir.Write(result=code, value=coded.add("cast", ternary_code, dtype=uint(2)))),
    ]
    fields = (ir.Field(name="scale", dtype=F32, shape=()), ir.Field(name="code", dtype=uint(2), shape=(N,)))
    outputs = [port("field", "scale", scale), port("field", "code", code)]
    p_scale, p_code, out = array("p_scale"), array("p_code", N, dtype=uint(2)), array("out", N)
    back = Body()
    level = back.add("sub", back.add("cast", back.load(p_code)), back.const(1.0))
    write = ir.Write(result=out, value=back.add("mul", level, back.load(p_scale)))
    decode = ir.Function(
        name="decode", inputs=(port("field", "scale", p_scale), port("field", "code", p_code)),
        operations=(back.sweep((N,), write),), outputs=(port("out", "out", out),),
    )  # fmt: skip
    return flat_program("ternary", operations, outputs, fields, decode)


def momentum_filter() -> ir.Program:
    """Two states, a threshold from a sample, a bounded filter, and scatters of zeros into the states."""
    g, velocity, pending = array("g", N), array("velocity", N), array("pending", N)
    velocity_2, pending_2, scaled = array("velocity_2", N), array("pending_2", N), array("scaled", N)
    probe, threshold = array("probe", Num(64)), array("threshold")
    index = array("index", K, dtype=U32, count="found")
    found, cut, value = array("found", dtype=U32), array("cut", dtype=U32), array("value", K, count="found")
    velocity_3, pending_3 = array("velocity_3", N), array("pending_3", N)
    sample = Body()
    at = sample.add("sample_index", dtype=U32, stream=0, shared=False, extent=N)
    taken = sample.at(pending_2, at)
    kth = Body()
    key = kth.add("abs", kth.load(probe))
    keep = Body()
    x = keep.load(pending_2)
    chosen = keep.add("ge", keep.add("abs", x), keep.load(threshold), dtype=BOOL)
    operations = [
        mapped(scaled, "mul", velocity, 0.9),
        mapped(velocity_2, "add", scaled, g),
        mapped(pending_2, "add", pending, velocity_2),
        sample.sweep((Num(64),), ir.Write(result=probe, value=taken)),
        kth.sweep((Num(64),), ir.Kth(result=threshold, key=key, k=Num(5))),
        keep.sweep(
            (N,),
            ir.Keep(index=index, count=found, cut=cut, carried=((value, x),), predicate=chosen, limit=K),
        ),
        _cleared(velocity_3, velocity_2, index),
        _cleared(pending_3, pending_2, index),
    ]
    fields = (
        ir.Field(name="index", dtype=U32, shape=(K,), count_of="index"),
        ir.Field(name="value", dtype=F32, shape=(K,), count_of="index"),
    )
    outputs = [
        port("count", "index", found), port("field", "index", index), port("field", "value", value),
        port("state", "velocity", velocity_3), port("state", "pending", pending_3), port("cut", "cut", cut),
    ]  # fmt: skip
    decode = scatter_decode((N,), (K,), U32, count=True)
    return flat_program("momentum_filter", operations, outputs, fields, decode, states=("velocity", "pending"))


def _cleared(result: ir.Value, base: ir.Value, index: ir.Value) -> ir.Sweep:
    body = Body()
    put = ir.Put(result=result, base=base, index=body.load(index), value=body.const(0.0))
    return body.sweep(index.shape, put, count=index.count)


def search() -> ir.Program:
    """A threshold by bisection in a bounded loop, then a filter."""
    g, magnitude, top = array("g", N), array("magnitude", N), array("top")
    start = array("start")
    low, high = array("low"), array("high")
    middle, over, enough, go = array("middle"), array("over"), array("enough", dtype=BOOL), array("go", dtype=BOOL)
    next_low, next_high, last_low, last_high = map(array, ("next_low", "next_high", "last_low", "last_high"))
    index = array("index", K, dtype=U32, count="found")
    found, cut, value = array("found", dtype=U32), array("cut", dtype=U32), array("value", K, count="found")
    count = Body()
    above = count.add("gt", count.load(magnitude), count.load(middle), dtype=BOOL)
    ones = count.add("select", above, count.const(1.0), count.const(0.0))
    keep = Body()
    x = keep.load(g)
    chosen = keep.add("gt", keep.add("abs", x), keep.load(last_low), dtype=BOOL)
    some = Body()
    more = some.add("gt", some.load(over), some.add("size", value=K), dtype=BOOL)
    loop = ir.Loop(
        limit=6,
        carried=(
            ir.Carried(initial=start, parameter=low, yielded=next_low, result=last_low),
            ir.Carried(initial=top, parameter=high, yielded=next_high, result=last_high),
        ),
        head=(mapped(go, "lt", low, high),),
        condition=go,
        body=(
            _halfway(middle, low, high),
            count.sweep((N,), ir.Fold(results=(over,), combine=ir.Combine(kind="add"), value=ones)),
            some.sweep((), ir.Write(result=enough, value=more)),
            mapped(next_low, "select", enough, middle, low),
            mapped(next_high, "select", enough, high, middle),
        ),
    )
    keep_sink = ir.Keep(index=index, count=found, cut=cut, carried=((value, x),), predicate=chosen, limit=K)
    operations = [
        mapped(magnitude, "abs", g),
        folded(top, "max", magnitude),
        mapped(start, "sub", top, top),
        loop,
        keep.sweep((N,), keep_sink),
    ]
    fields = (
        ir.Field(name="index", dtype=U32, shape=(K,), count_of="index"),
        ir.Field(name="value", dtype=F32, shape=(K,), count_of="index"),
    )
    outputs = [
        port("count", "index", found), port("field", "index", index), port("field", "value", value),
        port("cut", "cut", cut),
    ]  # fmt: skip
    return flat_program("search", operations, outputs, fields, scatter_decode((N,), (K,), U32, count=True))


def _halfway(result: ir.Value, low: ir.Value, high: ir.Value) -> ir.Sweep:
    body = Body()
    total = body.add("add", body.load(low), body.load(high))
    return body.sweep((), ir.Write(result=result, value=body.add("mul", total, body.const(0.5))))


SAMPLES = (top_k, row_top_k, sign_mean, ternary, momentum_filter, search)
