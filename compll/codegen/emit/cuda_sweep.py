"""Flat sweeps: what each kind of sink adds. Filters and selections are in `cuda_select.py`."""

from __future__ import annotations

from typing import assert_never

from compll.codegen import ir
from compll.codegen.emit.cuda_combine import combine_text, result_texts
from compll.codegen.emit.cuda_context import Context, DeviceFunction, Turns, lambda_lines, zero_of
from compll.codegen.emit.cuda_flat import FlatSweep
from compll.codegen.emit.cuda_launch import CHUNK, Work, parts_of
from compll.codegen.emit.cuda_select import print_filter, print_selection
from compll.sizes import product


def print_flat(context: Context, kernel: str, sweep: ir.Sweep) -> list[DeviceFunction | Turns]:
    """The functions of a sweep without results per row, in order."""
    flat = FlatSweep.of(context, kernel, sweep)
    for sink in sweep.sinks:
        _sink(flat, sink)
    scans_only = all(isinstance(sink, ir.Scan) for sink in sweep.sinks)
    main = [] if scans_only and not flat.body.stores else [flat.main_walk()]
    return [*flat.before, *main, *flat.after]


def _sink(flat: FlatSweep, sink: ir.Sink) -> None:
    match sink:
        case ir.Write():
            _write(flat, sink)
        case ir.Fold():
            _fold(flat, sink)
        case ir.Keep():
            print_filter(flat, sink)
        case ir.Top() | ir.Kth():
            print_selection(flat, sink)
        case ir.Scan():
            _scan(flat, sink)
        case ir.Put():
            _put(flat, sink)
        case _:
            assert_never(sink)


def _write(flat: FlatSweep, sink: ir.Write) -> None:
    """A store; codes of a packed section are collected and stored by the warp."""
    memory = flat.context.memory
    value = flat.main.name(sink.value)
    if not memory.is_packed(sink.result):
        flat.inner.append(memory.store(sink.result, "i", value))
        return
    buffer = memory.buffer(sink.result)
    code = flat.names.fresh(f"{sink.result.name}_bits")
    flat.collected.append(f"uint32_t {code} = 0;")
    flat.inner.append(f"{code} = {value};")
    store = f"compll::store_packed<{buffer.dtype.bits}>({memory.section(buffer)}, i, extent, {code});"
    flat.collectives.append(store)


def _fold(flat: FlatSweep, sink: ir.Fold) -> None:
    name = flat.names.fresh(sink.results[0].name)
    op = combine_text(sink.combine, flat.dtype(sink.value), flat.context, f"{name}_combine")
    partials = flat.add_scratch(name, "partials", op.state, op.state_bytes, parts_of(flat.space, CHUNK))
    flat.uniform += [*op.declarations, f"{op.state} {name} = {op.object}.identity();"]
    flat.inner.append(f"{name} = {op.object}.take({name}, {flat.main.name(sink.value)}, strip + next, i);")
    flat.epilogue.append(f"compll::fold_chunk({name}, {partials}, tile, extent, {op.object});")
    flat.last.append(f"{name} = compll::fold_partials({partials}, extent, {op.object});")
    for value, text in result_texts(sink.combine, sink.results, name):
        flat.last.append(f"if (threadIdx.x == 0) {flat.context.memory.store(value, '0', text)}")


def _put(flat: FlatSweep, sink: ir.Put) -> None:
    memory = flat.context.memory
    extent = memory.index(sink.result.shape[-1])
    index = flat.main.name(sink.index)
    place = f"index_t({index})"
    if len(sink.result.shape) == 2:
        place = f"i / {memory.index(flat.sweep.shape[1])} * {extent} + {place}"
    store = memory.store(sink.result, place, flat.main.name(sink.value))
    flat.inner.append(f"if (uint64_t({index}) < uint64_t({extent})) {{ {store} }}")
    flat.before += print_base(flat.context, flat.kernel, sink)


def print_base(context: Context, kernel: str, sink: ir.Put) -> list[DeviceFunction]:
    """The walk that fills the result of a scatter with its base, where they are not the same memory."""
    memory = context.memory
    if sink.base is not None and memory.buffer(sink.base) == memory.buffer(sink.result):
        return []
    text = memory.load(sink.base, "i") if sink.base is not None else zero_of(sink.result)
    return [print_copy(context, kernel, f"{sink.result.name}_base", sink.result, text)]


def print_copy(context: Context, kernel: str, phase: str, result: ir.Value, text: str) -> DeviceFunction:
    """A walk that stores `text`, an expression of position `i`, at every position of `result`."""
    store = context.memory.store(result, "i", text)
    body = ["for (unsigned strip = 0; compll::strip_is_inside(tile, strip, extent); ++strip) {"]
    body += ["    const index_t i = compll::position_of(tile, strip);", f"    if (i < extent) {{ {store} }}", "}"]
    extent = f"const index_t extent = {context.memory.space(result.shape, result.count)};"
    return context.call(
        kernel, phase, body, work=Work(product(result.shape)), uniform=[extent],
        streamed=context.streamed(result.shape, (result,)),
    )  # fmt: skip


def _scan(flat: FlatSweep, sink: ir.Scan) -> None:
    """Two walks of their own, in which a thread walks a strip of 64 neighbours."""
    name = flat.names.fresh(sink.result.name)
    op = combine_text(sink.combine, flat.dtype(sink.value), flat.context, "combine")
    carries = flat.add_scratch(name, "carries", op.state, op.state_bytes, parts_of(flat.space, CHUNK))
    lines = flat.body.print((sink.value,))
    value = lambda_lines("value", "index_t i", [*lines.inner, f"return {lines.name(sink.value)};"])
    uniform = [*lines.uniform, *op.declarations]
    totals = f"compll::scan_totals({carries}, s.arrivals, tile, extent, {op.object}, value);"
    flat.after.append(flat.call(flat.part(name, "totals"), [*value, totals], uniform))
    store = flat.context.memory.store(sink.result, "i", "result")
    emit = lambda_lines("emit", f"index_t i, {op.state} result", [store])
    exclusive = "true" if sink.exclusive else "false"
    write = f"compll::scan_write<{exclusive}>({carries}, tile, extent, {op.object}, value, emit);"
    flat.after.append(flat.call(flat.part(name, "write"), [*value, *emit, write], uniform))
