"""Sweeps with results for each row: one launch, in which blocks walk rows.

Folds alone let narrow rows be walked side by side; selections and scans need the whole block for a row. Keys of a
selection are kept in shared memory as far as they fit and evaluated again beyond.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from compll.codegen import ir
from compll.codegen.emit.cuda_combine import combine_text, result_texts
from compll.codegen.emit.cuda_context import CTYPE_BYTES, Context, DeviceFunction, comments_of, lambda_lines
from compll.codegen.emit.cuda_flat import own_arrays
from compll.codegen.emit.cuda_launch import Work
from compll.codegen.emit.cuda_replay import Lines, SweepBody
from compll.codegen.emit.cuda_select import pad_lines
from compll.codegen.emit.cuda_spelling import RESERVED
from compll.codegen.emit.cuda_sweep import print_base
from compll.codegen.emit.environment import render
from compll.codegen.emit.expr import Level
from compll.codegen.emit.names import Names
from compll.diagnostics import InternalError

KEY_BYTES = 32 * 1024  # of shared memory, for the keys of all selections of a sweep together
ROWS_PER_TILE = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsView:
    """templates/cuda/rows.cu.j2."""

    comments: Sequence[str]
    name: str
    segment: str
    active: str
    uniform: Sequence[str]
    row: Sequence[str]
    lanes: Sequence[str]
    ahead: Sequence[str]
    loads: Sequence[str]
    body: Sequence[str]
    pass_end: Sequence[str]
    row_end: Sequence[str]


@dataclass
class RowSweep:
    """A row-wise sweep while it is printed."""

    context: Context
    kernel: str
    sweep: ir.Sweep
    body: SweepBody
    main: Lines
    names: Names
    before: list[DeviceFunction] = field(default_factory=list)
    uniform: list[str] = field(default_factory=list)
    row: list[str] = field(default_factory=list)
    lanes: list[str] = field(default_factory=list)
    inner: list[str] = field(default_factory=list)
    pass_end: list[str] = field(default_factory=list)
    row_end: list[str] = field(default_factory=list)
    pool: int = 0  # bytes of shared memory that sinks have taken


def print_rows(context: Context, kernel: str, sweep: ir.Sweep) -> list[DeviceFunction]:
    """The functions of a sweep with results per row, in order."""
    body = SweepBody(context=context, kernel=kernel, sweep=sweep, by_rows=True)
    main = body.print_first()
    rows = RowSweep(
        context=context, kernel=kernel, sweep=sweep, body=body, main=main, names=Names((*RESERVED, *main.names))
    )
    for sink in sweep.sinks:
        _sink(rows, sink)
    return [*rows.before, _main(rows, body.store_lines(main))]


def _main(rows: RowSweep, stores: list[str]) -> DeviceFunction:
    context, memory = rows.context, rows.context.memory
    name = context.function_name(rows.kernel)
    columns = memory.index(rows.sweep.shape[1])
    folds_only = all(isinstance(sink, (ir.Fold, ir.Write, ir.Put)) for sink in rows.sweep.sinks)
    narrow = f"{columns} <= compll::CHUNK" if folds_only else "false"
    space = f"const compll::Rows rows = {{{memory.index(rows.sweep.shape[0])}, {columns}, {narrow}}};"
    view = RowsView(
        comments=comments_of(rows.sweep.origin), name=name, segment=context.segment, active=context.active,
        uniform=[space, "if (rows.rows == 0) return;", *rows.main.uniform, *rows.uniform],
        row=[*rows.main.at(Level.ROW), *rows.row], lanes=rows.lanes,
        ahead=rows.main.ahead.declarations, loads=rows.main.ahead.lines,
        body=[*rows.main.at(Level.ELEMENT), *stores, *rows.inner], pass_end=rows.pass_end, row_end=rows.row_end,
    )  # fmt: skip
    return DeviceFunction(
        name=name, text=render("cuda/rows.cu.j2", view), work=Work(rows.sweep.shape[0], ROWS_PER_TILE), pool=rows.pool,
        streamed=context.streamed(rows.sweep.shape, own_arrays(rows.sweep)),
    )  # fmt: skip


def _sink(rows: RowSweep, sink: ir.Sink) -> None:
    memory = rows.context.memory
    match sink:
        case ir.Write() if not memory.is_packed(sink.result):
            rows.inner.append(memory.store(sink.result, "i", rows.main.name(sink.value)))
        case ir.Put():
            _put(rows, sink)
        case ir.Fold(per_row=True):
            _fold(rows, sink)
        case ir.Top(per_row=True) | ir.Kth(per_row=True):
            _select(rows, sink)
        case ir.Scan(per_row=True):
            _scan(rows, sink)
        case _:
            raise InternalError(f"kernel `{rows.kernel}`: {type(sink).__name__} needs a flat sweep, got a row-wise one")


def _put(rows: RowSweep, sink: ir.Put) -> None:
    memory = rows.context.memory
    extent = memory.index(sink.result.shape[-1])
    index = rows.main.name(sink.index)
    store = memory.store(sink.result, f"row * {extent} + index_t({index})", rows.main.name(sink.value))
    rows.inner.append(f"if (uint64_t({index}) < uint64_t({extent})) {{ {store} }}")
    rows.before += print_base(rows.context, rows.kernel, sink)


def _fold(rows: RowSweep, sink: ir.Fold) -> None:
    name = rows.names.fresh(sink.results[0].name)
    op = combine_text(sink.combine, rows.body.statement(sink.value).dtype, rows.context, f"{name}_combine")
    rows.uniform += op.declarations
    rows.row.append(f"auto {name} = compll::row_fold({op.object});")
    rows.lanes.append(f"{op.state} {name}_lane = {op.object}.identity();")
    value = rows.main.name(sink.value)
    rows.inner.append(f"{name}_lane = {op.object}.take({name}_lane, {value}, strip + next, column);")
    rows.pass_end.append(f"{name}.take({name}_lane, rows, first);")
    rows.row_end.append(f"const {op.state} {name}_row = {name}.finish(rows);")
    for value_, text in result_texts(sink.combine, sink.results, f"{name}_row"):
        rows.row_end.append(f"if (inside && rows.leads()) {rows.context.memory.store(value_, 'row', text)}")


def _select(rows: RowSweep, sink: ir.Top | ir.Kth) -> None:
    memory = rows.context.memory
    name = rows.names.fresh(sink.result.name if isinstance(sink, ir.Kth) else sink.index.name)
    ctype = rows.body.ctype(sink.key)
    order = "uint64_t" if CTYPE_BYTES[ctype] == 8 else "uint32_t"
    selections = sum(isinstance(s, (ir.Top, ir.Kth)) for s in rows.sweep.sinks)
    cached = KEY_BYTES // selections // CTYPE_BYTES[order]
    keys = f"reinterpret_cast<{order}*>(pool + {rows.pool // 8})"
    rows.uniform += [f"constexpr unsigned {name}_cached = {cached};", f"{order}* const {name}_keys = {keys};"]
    rows.pool += 8 * -(-cached * CTYPE_BYTES[order] // 8)
    key = rows.main.name(sink.key)
    rows.inner.append(f"if (column < {name}_cached) {name}_keys[column] = compll::order_key({key});")
    carried = [] if isinstance(sink, ir.Kth) else [n for _, n in sink.carried]
    lines = rows.body.print((sink.key, *carried))
    again = [f"if (column < {name}_cached) return {name}_keys[column];", *_at_column(lines, (sink.key,))]
    again.append(f"return compll::order_key({lines.name(sink.key)});")
    block = ["__syncthreads();", *lambda_lines("key", "index_t column", again)]
    wanted = f"uint64_t({memory.size(sink.k)})"
    if isinstance(sink, ir.Top):
        block += [*_emit(rows, sink, lines), *_pad(rows, sink)]
        block.append(f"if (inside) compll::select_row<{order}>(rows.columns, {wanted}, key, emit, pad);")
    else:
        find = f"const {ctype} kth = compll::row_kth<{ctype}>(rows.columns, {wanted}, key);"
        store = f"if (threadIdx.x == 0) {memory.store(sink.result, 'row', 'kth')}"
        block += ["if (inside) {", f"    {find}", f"    {store}", "}"]
    rows.row_end += ["{", *(f"    {line}" for line in block), "}"]


def _at_column(lines: Lines, roots: Sequence[str]) -> list[str]:
    """The replay of some roots at `column` of the row, with everything that they need."""
    inner = lines.inner_of(roots)
    uniform = lines.uniform if inner else []
    return [*uniform, "const index_t i = row * rows.columns + column;", *inner] if inner else lines.uniform


def _emit(rows: RowSweep, sink: ir.Top, lines: Lines) -> list[str]:
    memory = rows.context.memory
    k = memory.index(sink.k)
    body = _at_column(lines, [name for _, name in sink.carried]) if sink.carried else []
    body += [f"const index_t at = row * {k} + slot;", memory.store(sink.index, "at", "uint32_t(column)")]
    body += [memory.store(value, "at", lines.name(name)) for value, name in sink.carried]
    return lambda_lines("emit", "index_t slot, index_t column", body)


def _pad(rows: RowSweep, sink: ir.Top) -> list[str]:
    k = rows.context.memory.index(sink.k)
    body = [f"const index_t at = row * {k} + slot;", *pad_lines(rows.context, sink, "at", "rows.columns")]
    return lambda_lines("pad", "index_t slot", body)


def _scan(rows: RowSweep, sink: ir.Scan) -> None:
    op = combine_text(sink.combine, rows.body.statement(sink.value).dtype, rows.context, "combine")
    lines = rows.body.print((sink.value,))
    value = [*_at_column(lines, (sink.value,)), f"return {lines.name(sink.value)};"]
    store = rows.context.memory.store(sink.result, "i", "result")
    emit = ["const index_t i = row * rows.columns + column;", store]
    exclusive = "true" if sink.exclusive else "false"
    block = [
        "__syncthreads();",
        *op.declarations,
        *lambda_lines("value", "index_t column", value),
        *lambda_lines("emit", f"index_t column, {op.state} result", emit),
        f"if (inside) compll::scan_row<{exclusive}>(rows.columns, {op.object}, value, emit);",
    ]
    rows.row_end += ["{", *(f"    {line}" for line in block), "}"]
