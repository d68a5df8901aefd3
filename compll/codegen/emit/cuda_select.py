"""What filters and selections add to a flat sweep: marks in its main walk, and walks after it that read again what was
marked (include/compll/filter.cuh, select.cuh)."""

from __future__ import annotations

from dataclasses import dataclass

from compll.codegen import ir
from compll.codegen.emit.cuda_context import Context, Turns, lambda_lines, zero_of
from compll.codegen.emit.cuda_flat import FlatSweep
from compll.codegen.emit.cuda_launch import CHUNK, RUN, Work, parts_of
from compll.codegen.emit.cuda_replay import Lines
from compll.sizes import Num

DIGIT_BITS = 11  # of the histograms in select.cuh
BINS_BYTES = 4 * 2**DIGIT_BITS
SAMPLES = 4096  # there, too
SELECTION_BYTES = BINS_BYTES + 32
FILTER_BYTES = 32


def print_filter(flat: FlatSweep, sink: ir.Keep) -> None:
    """Marks and counts in the main launch; one more launch writes."""
    memory = flat.context.memory
    name = flat.names.fresh(sink.index.name)
    mask = flat.add_scratch(name, "mask", "uint32_t", 4, parts_of(flat.space, 32))
    counts = flat.add_scratch(name, "counts", "uint32_t", 4, parts_of(flat.space, CHUNK))
    decided = flat.add_scratch(name, "filter", "compll::Filter", FILTER_BYTES, Num(1))
    flat.uniform.append(f"uint32_t {name}_matches = 0;")
    flat.collected.append(f"bool {name}_match = false;")
    flat.inner.append(f"{name}_match = {flat.main.name(sink.predicate)};")
    flat.collectives.append(f"{name}_matches += __popc(compll::mark({mask}, i, extent, {name}_match));")
    flat.epilogue.append(f"compll::count_chunk({name}_matches, {counts}, tile, extent);")
    flat.last += [
        f"compll::decide_filter({decided}, {mask}, {counts}, extent, {memory.size(sink.limit)}, s.step);",
        f"if (threadIdx.x == 0) {memory.store(sink.count, '0', f'{decided}->kept')}",
        f"if (threadIdx.x == 0) {memory.store(sink.cut, '0', f'{decided}->cut')}",
    ]
    lines = flat.body.print([name for _, name in sink.carried])
    write = f"compll::write_kept(*{decided}, {mask}, {counts}, tile, extent, emit);"
    flat.after.append(flat.call(flat.part(name, "write"), [*_emit(flat, sink, lines), write], lines.uniform))


def _emit(flat: FlatSweep, sink: ir.Keep | ir.Top, lines: Lines) -> list[str]:
    """The function `emit(slot, i)`, which stores a position and what it carries at its slot."""
    memory = flat.context.memory
    body = lines.inner_of([name for _, name in sink.carried])
    body.append(memory.store(sink.index, "slot", "uint32_t(i)"))
    body += [memory.store(value, "slot", lines.name(name)) for value, name in sink.carried]
    return lambda_lines("emit", "index_t slot, index_t i", body)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Selection:
    """How the text calls a selection's locals, the integers that order its keys, its scratch and its k."""

    name: str
    order: str
    state: str
    mask: str
    wanted: str

    @property
    def order_bytes(self) -> int:
        return 8 if self.order == "uint64_t" else 4

    @property
    def digits(self) -> int:
        return -(-8 * self.order_bytes // DIGIT_BITS)


def print_selection(flat: FlatSweep, sink: ir.Top | ir.Kth) -> None:
    """A sample before the main launch, which marks candidates; then launches that settle the threshold and write."""
    selection = _selection(flat, sink)
    _print_sample(flat, sink, selection)
    _mark_candidates(flat, sink, selection)
    lines = flat.body.print((sink.key,))
    key = _key(lines, sink.key)
    again = f"compll::rescan({selection.state}, s.arrivals, tile, extent, {selection.wanted}, key, pool);"
    flat.after.append(flat.call(flat.part(selection.name, "rescan"), [*key, again], lines.uniform, BINS_BYTES))
    refine = f"compll::refine({selection.state}, {selection.mask}, s.arrivals, tile, extent, key, pool)"
    done = _kth_result(flat, sink, selection, refine) if isinstance(sink, ir.Kth) else [f"{refine};"]
    refined = flat.call(flat.part(selection.name, "refine"), [*key, *done], lines.uniform, BINS_BYTES)
    flat.after.append(Turns(count=selection.digits - 1, steps=(refined,)))
    if isinstance(sink, ir.Top):
        _write_top(flat, sink, selection)


def _selection(flat: FlatSweep, sink: ir.Top | ir.Kth) -> _Selection:
    name = flat.names.fresh((sink.result if isinstance(sink, ir.Kth) else sink.index).name)
    order = "uint64_t" if flat.dtype(sink.key).name in ("i64", "f64") else "uint32_t"
    wanted = f"uint64_t({flat.context.memory.size(sink.k)})"
    return _Selection(
        name=name,
        order=order,
        state=flat.add_scratch(name, "selection", f"compll::Selection<{order}>", SELECTION_BYTES, Num(1)),
        mask=flat.add_scratch(name, "mask", "uint32_t", 4, parts_of(flat.space, 32)),
        wanted=f"compll::at_least_one({wanted})" if isinstance(sink, ir.Kth) else wanted,
    )


def _key(lines: Lines, root: str) -> list[str]:
    """The function `key(i)`, the order of the key at a position."""
    body = [*lines.inner_of((root,)), f"return compll::order_key({lines.name(root)});"]
    return lambda_lines("key", "index_t i", body)


def _print_sample(flat: FlatSweep, sink: ir.Top | ir.Kth, selection: _Selection) -> None:
    lines = flat.body.print((sink.key,), before=True)
    call = f"compll::sample_keys({selection.state}, extent, {selection.wanted}, key, pool);"
    body = [*_key(lines, sink.key), call]
    uniform = [flat.extent_line, *lines.uniform]
    phase = flat.part(selection.name, "sample")
    pool = SAMPLES * selection.order_bytes + BINS_BYTES
    flat.before.append(flat.context.call(flat.kernel, phase, body, work=Work(None), uniform=uniform, pool=pool))


def _mark_candidates(flat: FlatSweep, sink: ir.Top | ir.Kth, selection: _Selection) -> None:
    """What the main launch does: marks candidates and counts the first digits of their keys."""
    name, order = selection.name, selection.order
    flat.uniform += [
        f"const {order} {name}_hint = {selection.state}->hint;",
        f"uint32_t* const {name}_bins = compll::bins_of(pool, {flat.pool});",
        f"compll::clear_bins({name}_bins);",
    ]
    flat.pool += BINS_BYTES
    flat.collected.append(f"bool {name}_candidate = false;")
    flat.inner += [
        f"const {order} {name}_order = compll::order_key({flat.main.name(sink.key)});",
        f"{name}_candidate = {name}_order >= {name}_hint;",
        f"if ({name}_candidate) compll::count_digit({name}_bins, {name}_order);",
    ]
    flat.collectives.append(f"compll::mark({selection.mask}, i, extent, {name}_candidate);")
    flat.epilogue.append(f"compll::add_bins({name}_bins, {selection.state}->histogram);")
    flat.last.append(f"compll::settle_candidates({selection.state}, extent, {selection.wanted});")


def _kth_result(flat: FlatSweep, sink: ir.Kth, selection: _Selection, refine: str) -> list[str]:
    ctype = flat.body.ctype(sink.key)
    key = f"extent == 0 ? {ctype}(0) : compll::key_of_order<{ctype}>({selection.state}->threshold)"
    store = flat.context.memory.store(sink.result, "0", key)
    return [f"const bool done = {refine};", f"if (done && threadIdx.x == 0) {store}"]


def _write_top(flat: FlatSweep, sink: ir.Top, selection: _Selection) -> None:
    runs = parts_of(flat.space, RUN)
    above = flat.add_scratch(selection.name, "above", "uint32_t", 4, runs)
    equal = flat.add_scratch(selection.name, "equal", "uint32_t", 4, runs)
    given = f"*{selection.state}, {selection.mask}, {above}, {equal}"
    lines = flat.body.print((sink.key,))
    count = f"compll::count_selected({given}, s.arrivals, tile, extent, key);"
    flat.after.append(flat.call(flat.part(selection.name, "count"), [*_key(lines, sink.key), count], lines.uniform))
    lines = flat.body.print((sink.key, *(name for _, name in sink.carried)))
    pad = lambda_lines("pad", "index_t slot", pad_lines(flat.context, sink, "slot", "extent"))
    write = f"compll::write_selected({given}, tile, extent, {selection.wanted}, key, emit, pad);"
    body = [*_key(lines, sink.key), *_emit(flat, sink, lines), *pad, write]
    flat.after.append(flat.call(flat.part(selection.name, "write"), body, lines.uniform))


def pad_lines(context: Context, sink: ir.Top, slot: str, extent: str) -> list[str]:
    """Stores for a slot that no position fills: the extent as index, zeros as values."""
    stores = [context.memory.store(sink.index, slot, f"uint32_t({extent})")]
    return stores + [context.memory.store(value, slot, zero_of(value)) for value, _ in sink.carried]
