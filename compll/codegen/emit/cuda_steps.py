"""Steps that are no sweeps: sorting, matrices, Elias-Fano sections."""

from __future__ import annotations

from compll.codegen import ir
from compll.codegen.emit.cuda_context import CTYPE_BYTES, Context, DeviceFunction, comments_of, lambda_lines
from compll.codegen.emit.cuda_launch import THREADS, Work, parts_of
from compll.codegen.emit.cuda_sweep import print_copy
from compll.codegen.emit.expr import compute_ctype
from compll.codegen.layout import Section
from compll.codegen.plan import DecodeAscending, EncodeAscending
from compll.sizes import Num, Size, apply, product


def print_sort(context: Context, kernel: str, step: ir.Sort) -> list[DeviceFunction]:
    """A block sorts a row, in scratch of the type that keys are compared in."""
    memory = context.memory
    ctype = compute_ctype(step.result.dtype)
    shape = step.result.shape
    items = context.add_scratch(f"{kernel}_items", ctype, CTYPE_BYTES[ctype], product(shape))
    rows: Size = shape[0] if len(shape) == 2 else Num(1)
    base = f"index_t(tile.index) * {memory.index(shape[-1])}" if len(shape) == 2 else "0"
    body = [
        f"const index_t length = {memory.length(step.source)};",
        f"const index_t base = {base};",
        f"{ctype}* items = {items} + base;",
        "for (index_t at = threadIdx.x; at < length; at += compll::THREADS) {",
        f"    items[at] = {memory.load(step.source, '(base + at)')};",
        "}",
        f"compll::sort_row(items, length, {'true' if step.descending else 'false'});",
        "for (index_t at = threadIdx.x; at < length; at += compll::THREADS) {",
        f"    {memory.store(step.result, '(base + at)', 'items[at]')}",
        "}",
    ]
    return [context.call(kernel, "", body, work=Work(rows, 1), comments=comments_of(step.origin))]


def print_transpose(context: Context, kernel: str, step: ir.Transpose) -> list[DeviceFunction]:
    rows, columns = (context.memory.index(size) for size in step.result.shape)
    source = context.memory.load(step.source, f"(i % {columns} * {rows} + i / {columns})")
    return [print_copy(context, kernel, "", step.result, source)]


def print_orthonormalize(context: Context, kernel: str, step: ir.Orthonormalize) -> list[DeviceFunction]:
    """A copy, then Gram-Schmidt in place by one block for each segment."""
    memory = context.memory
    rows, columns = (memory.index(size) for size in step.result.shape)
    body = [f"compll::orthonormalize({memory.pointer(step.result)}, {rows}, {columns});"]
    run = context.call(kernel, "", body, work=Work(None), comments=comments_of(step.origin))
    return [*print_assignment(context, kernel, step.result, step.source), run]


def print_assignment(context: Context, kernel: str, result: ir.Value, source: ir.Value) -> list[DeviceFunction]:
    """Nothing where both are the same memory."""
    if context.memory.buffer(result) == context.memory.buffer(source):
        return []
    return [print_copy(context, kernel, "copy", result, context.memory.load(source, "i"))]


# --- Elias-Fano ------------------------------------------------------------------------------------------------------


def _shape_lines(context: Context, section: Section) -> list[str]:
    """The section's first byte and its geometry (ascending.cuh)."""
    memory = context.memory
    assert section.extent is not None and section.low_bits is not None and section.low_bytes is not None
    rows = memory.size(section.shape[0]) if len(section.shape) == 2 else "1"
    k = memory.size(section.shape[-1])
    extent, low_bits = memory.size(section.extent), memory.size(section.low_bits)
    fields = [f"uint64_t({k})", f"uint64_t({extent})", f"unsigned({low_bits})"]
    values = [f"uint64_t({rows})", *fields, f"uint64_t({memory.size(section.low_bytes)})"]
    values.append(f"compll::row_bytes_of({', '.join(fields)})")
    return [
        f"uint8_t* const section = s.payload + {memory.size(section.offset)};",
        f"const compll::Ascending shape = {{{', '.join(values)}}};",
    ]


def print_encode_ascending(context: Context, kernel: str, step: EncodeAscending) -> list[DeviceFunction]:
    memory = context.memory
    section = step.section
    two = len(section.shape) == 2
    extent = memory.count(step.count.name) if step.count else memory.space(section.shape)
    row, at = ("i / index_t(shape.k)", "i % index_t(shape.k)") if two else ("0", "i")
    body = [
        "for (unsigned strip = 0; compll::strip_is_inside(tile, strip, extent); ++strip) {",
        "    const index_t i = compll::position_of(tile, strip);",
        f"    if (i < extent) compll::encode_ascending(section, shape, {row}, {at}, {memory.load(step.source, 'i')});",
        "}",
    ]
    uniform = [*_shape_lines(context, section), f"const index_t extent = {extent};"]
    return [context.call(kernel, "", body, work=Work(product(section.shape)), uniform=uniform)]


def print_decode_ascending(context: Context, kernel: str, step: DecodeAscending) -> list[DeviceFunction]:
    """A section of one row in two walks over the words of its bit vector; of several, a block for each row."""
    memory = context.memory
    section = step.section
    assert section.low_bytes is not None
    uniform = _shape_lines(context, section)
    count = memory.count(step.count.name) if step.count else "shape.k"
    if len(section.shape) == 2:
        store = memory.store(step.result, "(row * index_t(shape.k) + index_t(at))", "index")
        body = ["const index_t row = tile.index;", *lambda_lines("emit", "uint64_t at, uint32_t index", [store])]
        body.append(f"if (row < shape.rows) compll::decode_ascending_row(section, shape, row, {count}, emit);")
        return [context.call(kernel, "", body, work=Work(section.shape[0], 1), uniform=uniform)]
    words = apply("ceil", apply("div", apply("sub", section.nbytes, section.low_bytes), Num(4)))
    counts_length = apply("add", parts_of(words, THREADS), Num(1))
    counts = context.add_scratch(f"{kernel}_counts", "uint32_t", 4, counts_length)
    first = [f"compll::count_ascending(section, shape, {counts}, s.arrivals, tile);"]
    emit = lambda_lines("emit", "uint64_t at, uint32_t index", [memory.store(step.result, "index_t(at)", "index")])
    second = [*emit, f"compll::decode_ascending(section, shape, {counts}, tile, {count}, emit);"]
    return [
        context.call(kernel, "count", first, work=Work(words, THREADS), uniform=uniform),
        context.call(kernel, "", second, work=Work(words, THREADS), uniform=uniform),
    ]
