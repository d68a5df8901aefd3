"""Sweeps that are walked flat: one launch over the space, and what its sinks need before and after.

The first launch evaluates the body once at every position, 64 threads to a chunk of 4096. Sinks add lines to it: at
every position, by whole warps behind it, at the end of a chunk, and in the last block of a segment.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import assert_never

from compll.codegen import ir
from compll.codegen.emit.cuda_combine import combine_text, result_texts
from compll.codegen.emit.cuda_context import Context, DeviceFunction, comments_of, lambda_lines
from compll.codegen.emit.cuda_launch import CHUNK, RUN, THREADS, TILE, Launch, launch_bounds, parts_of
from compll.codegen.emit.cuda_replay import Lines, SweepBody
from compll.codegen.emit.cuda_spelling import RESERVED
from compll.codegen.emit.environment import render
from compll.codegen.emit.names import Names
from compll.dtypes import DType
from compll.sizes import Num, Size, product

DIGIT_BITS = 11  # of the histograms in select.cuh


@dataclass(frozen=True, slots=True, kw_only=True)
class FlatView:
    """templates/cuda/flat.cu.j2; `collected` declares what `collectives` use of a position, zero beyond the extent."""

    comments: Sequence[str]
    bounds: str
    name: str
    segment: str
    active: str
    uniform: Sequence[str]
    collected: Sequence[str]
    body: Sequence[str]
    collectives: Sequence[str]
    epilogue: Sequence[str]
    last: Sequence[str]


@dataclass
class FlatSweep:
    """A flat sweep while it is printed."""

    context: Context
    kernel: str
    sweep: ir.Sweep
    body: SweepBody
    main: Lines
    names: Names
    uniform: list[str] = field(default_factory=list)
    collected: list[str] = field(default_factory=list)
    inner: list[str] = field(default_factory=list)
    collectives: list[str] = field(default_factory=list)
    epilogue: list[str] = field(default_factory=list)
    last: list[str] = field(default_factory=list)
    before: list[DeviceFunction] = field(default_factory=list)
    after: list[DeviceFunction] = field(default_factory=list)

    @property
    def space(self) -> Size:
        return product(self.sweep.shape)

    @property
    def extent_line(self) -> str:
        return f"const index_t extent = {self.context.memory.space(self.sweep.shape, self.sweep.count)};"

    def dtype(self, statement: str) -> DType:
        return self.body.dtype(statement).dtype

    def call(
        self, phase: str, body: Sequence[str], uniform: Sequence[str] = (), work: Size | None = None
    ) -> DeviceFunction:
        work = self.space if work is None else work
        return self.context.call(self.kernel, phase, body, work=work, uniform=[self.extent_line, *uniform])


def print_flat(context: Context, kernel: str, sweep: ir.Sweep) -> list[DeviceFunction]:
    """The launches of a sweep without results per row, in order."""
    body = SweepBody(context=context, kernel=kernel, sweep=sweep, by_rows=False)
    everything = body.print([s.name for s in sweep.body], replayed=False)
    names = Names((*RESERVED, *everything.names))
    flat = FlatSweep(context=context, kernel=kernel, sweep=sweep, body=body, main=everything, names=names)
    for sink in sweep.sinks:
        _sink(flat, sink)
    stores = body.store_lines(everything)
    if any(not isinstance(sink, ir.Scan) for sink in sweep.sinks) or stores:
        return [*flat.before, _main(flat, stores), *flat.after]
    return [*flat.before, *flat.after]


def _main(flat: FlatSweep, stores: list[str]) -> DeviceFunction:
    name = flat.context.function_name(flat.kernel)
    view = FlatView(
        comments=comments_of(flat.sweep.origin), bounds=launch_bounds(THREADS), name=name, segment=flat.context.segment,
        active=flat.context.active, uniform=[flat.extent_line, *flat.main.uniform, *flat.uniform],
        collected=flat.collected, body=[*flat.main.inner, *stores, *flat.inner], collectives=flat.collectives,
        epilogue=flat.epilogue, last=flat.last,
    )  # fmt: skip
    launch = Launch(function=name, work=flat.space, per_tile=TILE)
    return DeviceFunction(text=render("cuda/flat.cu.j2", view), launch=launch)


def _sink(flat: FlatSweep, sink: ir.Sink) -> None:
    match sink:
        case ir.Write():
            _write(flat, sink)
        case ir.Fold():
            _fold(flat, sink)
        case ir.Keep():
            _keep(flat, sink)
        case ir.Top() | ir.Kth():
            _select(flat, sink)
        case ir.Scan():
            _scan(flat, sink)
        case ir.Put():
            _put(flat, sink)
        case _:
            assert_never(sink)


def _write(flat: FlatSweep, sink: ir.Write) -> None:
    memory = flat.context.memory
    value = flat.main.name(sink.value)
    if not memory.is_packed(sink.result):
        flat.inner.append(memory.store(sink.result, "i", value))
        return
    buffer = memory.buffer(sink.result)
    code = flat.names.fresh(f"{sink.result.name}_code")
    flat.collected.append(f"uint32_t {code} = 0;")
    flat.inner.append(f"{code} = {value};")
    flat.collectives.append(
        f"compll::store_packed<{buffer.dtype.bits}>({memory.section(buffer)}, i, extent, {code});"
    )


def _fold(flat: FlatSweep, sink: ir.Fold) -> None:
    context = flat.context
    name = flat.names.fresh(sink.results[0].name)
    op = combine_text(sink.combine, flat.dtype(sink.value), context, f"{name}_combine")
    chunks = parts_of(flat.space, CHUNK)
    partials = context.add_scratch(f"{flat.kernel}_{name}_partials", op.state, op.state_bytes, chunks)
    flat.uniform += [*op.declarations, f"{op.state} {name} = {op.object}.identity();"]
    flat.inner.append(f"{name} = {op.object}.take({name}, {flat.main.name(sink.value)}, strip, i);")
    flat.epilogue.append(f"compll::fold_chunk({name}, {partials}, tile, extent, {op.object});")
    flat.last.append(f"{name} = compll::fold_partials({partials}, extent, {op.object});")
    for value, text in result_texts(sink.combine, sink.results, name):
        flat.last.append(f"if (threadIdx.x == 0) {context.memory.store(value, '0', text)}")


def _put(flat: FlatSweep, sink: ir.Put) -> None:
    memory = flat.context.memory
    extent = memory.index(sink.result.shape[-1])
    index = flat.main.name(sink.index)
    place = f"index_t({index})"
    if len(sink.result.shape) == 2:
        place = f"i / {memory.index(flat.sweep.shape[1])} * {extent} + {place}"
    store = memory.store(sink.result, place, flat.main.name(sink.value))
    flat.inner.append(f"if (uint64_t({index}) < uint64_t({extent})) {{ {store} }}")
    flat.before += initialise(flat.context, flat.kernel, sink)


def initialise(context: Context, kernel: str, sink: ir.Put) -> list[DeviceFunction]:
    """The launch that fills the result of a scatter with its base, where they are not the same memory."""
    memory = context.memory
    if sink.base is not None and memory.buffer(sink.base) == memory.buffer(sink.result):
        return []
    zero = "0.0f" if sink.result.dtype.kind == "float" else "0"
    text = memory.load(sink.base, "i") if sink.base is not None else zero
    return [copy(context, kernel, f"{sink.result.name}_base", sink.result, text)]


def copy(context: Context, kernel: str, phase: str, result: ir.Value, text: str) -> DeviceFunction:
    """A launch that stores `text`, an expression of position `i`, at every position of `result`."""
    store = context.memory.store(result, "i", text)
    body = ["for (unsigned strip = 0; compll::strip_is_inside(tile, strip, extent); ++strip) {"]
    body += ["    const index_t i = compll::position_of(tile, strip);", f"    if (i < extent) {{ {store} }}", "}"]
    extent = f"const index_t extent = {context.memory.space(result.shape, result.count)};"
    return context.call(kernel, phase, body, work=product(result.shape), uniform=[extent])


def _keep(flat: FlatSweep, sink: ir.Keep) -> None:
    context, memory = flat.context, flat.context.memory
    name = flat.names.fresh(sink.index.name)
    mask = context.add_scratch(f"{flat.kernel}_{name}_mask", "uint32_t", 4, parts_of(flat.space, 32))
    counts = context.add_scratch(f"{flat.kernel}_{name}_counts", "uint32_t", 4, parts_of(flat.space, CHUNK))
    kept = context.add_scratch(f"{flat.kernel}_{name}_filter", "compll::Filter", 32, Num(1))
    flat.uniform.append(f"uint32_t {name}_matches = 0;")
    flat.collected.append(f"bool {name}_match = false;")
    flat.inner.append(f"{name}_match = {flat.main.name(sink.predicate)};")
    flat.collectives.append(f"{name}_matches += __popc(compll::mark({mask}, i, extent, {name}_match));")
    flat.epilogue.append(f"compll::count_chunk({name}_matches, {counts}, tile, extent);")
    limit = memory.size(sink.limit)
    flat.last += [
        f"compll::decide_filter({kept}, {mask}, {counts}, extent, {limit}, s.step);",
        f"if (threadIdx.x == 0) {memory.store(sink.count, '0', f'{kept}->kept')}",
        f"if (threadIdx.x == 0) {memory.store(sink.cut, '0', f'{kept}->cut')}",
    ]
    lines = flat.body.print([name for _, name in sink.carried])
    call = f"compll::write_kept(*{kept}, {mask}, {counts}, tile, extent, emit);"
    flat.after.append(flat.call(f"{name}_write", [*_emit(flat, sink, lines), call], lines.uniform))


def _emit(flat: FlatSweep, sink: ir.Keep | ir.Top, lines: Lines) -> list[str]:
    """The function `emit(slot, i)`, which stores a position and what it carries at its slot."""
    memory = flat.context.memory
    body = lines.inner_of([name for _, name in sink.carried])
    body.append(memory.store(sink.index, "slot", "uint32_t(i)"))
    body += [memory.store(value, "slot", lines.name(name)) for value, name in sink.carried]
    return lambda_lines("emit", "index_t slot, index_t i", body)


def _key(lines: Lines, root: str) -> list[str]:
    """The function `key(i)`, the order of the key at a position."""
    body = [*lines.inner_of((root,)), f"return compll::order_key({lines.name(root)});"]
    return lambda_lines("key", "index_t i", body)


def _select(flat: FlatSweep, sink: ir.Top | ir.Kth) -> None:
    context = flat.context
    result = sink.result if isinstance(sink, ir.Kth) else sink.index
    name = flat.names.fresh(result.name)
    order = "uint64_t" if flat.dtype(sink.key).name in ("i64", "f64") else "uint32_t"
    width = 64 if order == "uint64_t" else 32
    selection = context.add_scratch(
        f"{flat.kernel}_{name}_selection", f"compll::Selection<{order}>", 4 * 2**DIGIT_BITS + 32, Num(1)
    )
    mask = context.add_scratch(f"{flat.kernel}_{name}_mask", "uint32_t", 4, parts_of(flat.space, 32))
    wanted = f"uint64_t({context.memory.size(sink.k)})"
    if isinstance(sink, ir.Kth):
        wanted = f"compll::at_least_one({wanted})"
    _sample(flat, sink.key, name, selection, wanted)
    _mark_candidates(flat, name, flat.main.name(sink.key), order, selection, mask, wanted)
    lines = flat.body.print((sink.key,))
    key = _key(lines, sink.key)
    again = f"compll::rescan({selection}, s.arrivals, tile, extent, {wanted}, key);"
    flat.after.append(flat.call(f"{name}_rescan", [*key, again], lines.uniform))
    refine = f"compll::refine({selection}, {mask}, s.arrivals, tile, extent, key)"
    done = _kth_result(flat, sink, selection, refine) if isinstance(sink, ir.Kth) else [f"{refine};"]
    flat.after += [flat.call(f"{name}_refine", [*key, *done], lines.uniform)] * (-(-width // DIGIT_BITS) - 1)
    if isinstance(sink, ir.Top):
        flat.after += _write_top(flat, sink, name, selection, mask, wanted)


def _sample(flat: FlatSweep, key: str, name: str, selection: str, wanted: str) -> None:
    lines = flat.body.print((key,), replayed=False)
    sample = [*_key(lines, key), f"compll::sample_keys({selection}, extent, {wanted}, key);"]
    uniform = [flat.extent_line, *lines.uniform]
    flat.before.append(flat.context.call(flat.kernel, f"{name}_sample", sample, work=None, uniform=uniform))


def _mark_candidates(
    flat: FlatSweep, name: str, key: str, order: str, selection: str, mask: str, wanted: str
) -> None:
    """What the main launch does for a selection: marks candidates and counts their first digits."""
    flat.uniform += [
        f"const {order} {name}_hint = {selection}->hint;",
        f"__shared__ uint32_t {name}_bins[compll::BINS];",
        f"compll::clear_bins({name}_bins);",
    ]
    flat.collected.append(f"bool {name}_candidate = false;")
    flat.inner += [
        f"const {order} {name}_order = compll::order_key({key});",
        f"{name}_candidate = {name}_order >= {name}_hint;",
        f"if ({name}_candidate) compll::count_digit({name}_bins, {name}_order);",
    ]
    flat.collectives.append(f"compll::mark({mask}, i, extent, {name}_candidate);")
    flat.epilogue.append(f"compll::add_bins({name}_bins, {selection}->histogram);")
    flat.last.append(f"compll::settle_candidates({selection}, extent, {wanted});")


def _kth_result(flat: FlatSweep, sink: ir.Kth, selection: str, refine: str) -> list[str]:
    ctype = flat.body.ctype(sink.key)
    key = f"extent == 0 ? {ctype}(0) : compll::key_of_order<{ctype}>({selection}->threshold)"
    store = flat.context.memory.store(sink.result, "0", key)
    return [f"const bool done = {refine};", f"if (done && threadIdx.x == 0) {store}"]


def _write_top(flat: FlatSweep, sink: ir.Top, name: str, selection: str, mask: str, wanted: str) -> list[DeviceFunction]:
    context = flat.context
    runs = parts_of(flat.space, RUN)
    above = context.add_scratch(f"{flat.kernel}_{name}_above", "uint32_t", 4, runs)
    equal = context.add_scratch(f"{flat.kernel}_{name}_equal", "uint32_t", 4, runs)
    lines = flat.body.print((sink.key,))
    count = f"compll::count_selected(*{selection}, {mask}, {above}, {equal}, s.arrivals, tile, extent, key);"
    counted = flat.call(f"{name}_count", [*_key(lines, sink.key), count], lines.uniform)
    lines = flat.body.print((sink.key, *(n for _, n in sink.carried)))
    pad = lambda_lines("pad", "index_t slot", pad_lines(context, sink, "slot", "extent"))
    write = f"compll::write_selected(*{selection}, {mask}, {above}, {equal}, tile, extent, {wanted}, key, emit, pad);"
    body = [*_key(lines, sink.key), *_emit(flat, sink, lines), *pad, write]
    return [counted, flat.call(f"{name}_write", body, lines.uniform)]


def pad_lines(context: Context, sink: ir.Top, slot: str, extent: str) -> list[str]:
    """Stores for a slot that no position fills: the extent as index, zeros as values."""
    stores = [context.memory.store(sink.index, slot, f"uint32_t({extent})")]
    for value, _ in sink.carried:
        stores.append(context.memory.store(value, slot, "0.0f" if value.dtype.kind == "float" else "0"))
    return stores


def _scan(flat: FlatSweep, sink: ir.Scan) -> None:
    context = flat.context
    name = flat.names.fresh(sink.result.name)
    op = combine_text(sink.combine, flat.dtype(sink.value), context, "combine")
    carries = context.add_scratch(f"{flat.kernel}_{name}_carries", op.state, op.state_bytes, parts_of(flat.space, CHUNK))
    lines = flat.body.print((sink.value,))
    value = lambda_lines("value", "index_t i", [*lines.inner, f"return {lines.name(sink.value)};"])
    uniform = [*lines.uniform, *op.declarations]
    totals = f"compll::scan_totals({carries}, s.arrivals, tile, extent, {op.object}, value);"
    flat.after.append(flat.call(f"{name}_totals", [*value, totals], uniform))
    emit = lambda_lines("emit", f"index_t i, {op.state} result", [context.memory.store(sink.result, "i", "result")])
    exclusive = "true" if sink.exclusive else "false"
    write = f"compll::scan_write<{exclusive}>({carries}, tile, extent, {op.object}, value, emit);"
    flat.after.append(flat.call(f"{name}_write", [*value, *emit, write], uniform))
