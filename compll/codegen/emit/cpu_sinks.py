"""What each sink adds to a sweep on the CPU: lines for the places that `cpu/sweep.cpp.j2` has.

Objects of the library (include/compll/*.hpp) do the work; here they are declared, fed strip by strip, and asked.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import assert_never

from compll.codegen import ir
from compll.codegen.emit.cpu_memory import Memory, Strip, is_packed, stored
from compll.codegen.emit.expr import compute_ctype, constant, storage_ctype
from compll.codegen.plan import Buffer
from compll.dtypes import DType


@dataclass(slots=True, kw_only=True)
class Places:
    """Lines by place, outermost first, and the names of the objects that `declare` makes."""

    objects: list[str] = field(default_factory=list)
    prepare: list[str] = field(default_factory=list)  # once, before all rows
    declare: list[str] = field(default_factory=list)  # each row: the objects
    start: list[str] = field(default_factory=list)  # each worker
    chunk: list[str] = field(default_factory=list)  # each chunk, before its strips
    arrays: list[str] = field(default_factory=list)  # each strip: its local arrays
    element: list[str] = field(default_factory=list)  # each position, after the body
    run: list[str] = field(default_factory=list)  # each run of positions, after it; `row` is known
    strip: list[str] = field(default_factory=list)  # each strip, after its positions
    chunk_end: list[str] = field(default_factory=list)
    finish: list[str] = field(default_factory=list)  # each row, at its end
    after: list[str] = field(default_factory=list)  # once, after all rows


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectionNeeds:
    """What a selection asks of the sweep printer: functions that evaluate slices of the body."""

    sample: Callable[[str, str], list[str]]  # (object, key): lines that sample the key
    complete: Callable[[str, tuple[str, ...]], list[str]]  # (object, statements): lines that complete it


class SinkPrinter:
    """Prints the sinks of one sweep into places; `dtypes` and `local` give statements' types and C names."""

    def __init__(
        self, memory: Memory, strip: Strip, places: Places, *, rowwise: bool, bounded: bool, team: str,
        dtypes: dict[str, DType], local: Callable[[str], str],
        combine: Callable[[ir.Combine, DType, str], tuple[str, str]], selection: SelectionNeeds,
    ):  # fmt: skip
        self._memory = memory
        self._strip = strip
        self._places = places
        self._rowwise = rowwise
        self._bounded = bounded
        self._team = team
        self._dtypes = dtypes
        self._local = local
        self._combine = combine
        self._selection = selection
        self._arrays: dict[str, str] = {}

    def add(self, sink: ir.Sink) -> None:
        match sink:
            case ir.Write():
                self._write(sink)
            case ir.Fold():
                self._fold(sink)
            case ir.Keep():
                self._keep(sink)
            case ir.Top():
                self._top(sink)
            case ir.Kth():
                self._kth(sink)
            case ir.Scan():
                self._scan(sink)
            case ir.Put():
                self._put(sink)
            case _:
                assert_never(sink)

    # --- helpers ------------------------------------------------------------------------------------------------------

    def _ctype(self, statement: str) -> str:
        return compute_ctype(self._dtypes[statement])

    def array(self, statement: str) -> str:
        """A local array that holds the statement's values over the strip."""
        if statement not in self._arrays:
            name = self._strip.names.fresh(f"{statement}_strip")
            self._arrays[statement] = name
            self._places.arrays.append(f"{self._ctype(statement)} {name}[compll::STRIP];")
            self._places.element.append(f"{name}[i] = {self._local(statement)};")
        return self._arrays[statement]

    def _object(self, value: ir.Value, ctype: str, *arguments: str) -> str:
        name = self._memory.names.fresh(f"{value.name}_sink")
        self._places.declare.append(f"{ctype} {name}({', '.join(arguments)});")
        self._places.objects.append(name)
        return name

    def _row_index(self) -> str:
        return "row" if self._rowwise else "0"

    def _in_row(self, extent: str, index: str) -> str:
        return f"row * {extent} + {index}" if self._rowwise else index

    def _zero_rest(self, value: ir.Value, used: str, capacity: str) -> None:
        """What lies beyond the count is zero; sections come zeroed."""
        buffer = self._memory.buffer(value)
        if buffer.role != "section":
            pointer = self._memory.pointer(buffer)
            self._places.after.append(f"compll::zero({pointer}, {used}, {capacity}, threads);")

    # --- sinks --------------------------------------------------------------------------------------------------------

    def _write(self, sink: ir.Write) -> None:
        buffer = self._memory.buffer(sink.result)
        value = self._local(sink.value)
        origin = self._strip.origin
        if is_packed(buffer):
            self._write_packed(sink, buffer)
        elif self._memory.segment.is_padded(buffer):
            name = self._strip.names.fresh(f"{buffer.name}_out")
            self._places.arrays.append(f"{storage_ctype(buffer.dtype)} {name}[compll::STRIP];")
            self._places.element.append(f"{name}[i] = {stored(buffer, value)};")
            numel, pointer = self._memory.segment.field("numel"), self._memory.pointer(buffer)
            self._places.strip.append(f"compll::store_padded({name}, {origin}, count, {numel}, {pointer});")
        else:
            self._places.element.append(self._memory.store(buffer, f"{origin} + i", value))
        if self._bounded:
            self._zero_rest(sink.result, "length", self._memory.segment.size(sink.result.shape[-1]))

    def _write_packed(self, sink: ir.Write, buffer: Buffer) -> None:
        name = self._strip.names.fresh(f"{buffer.name}_codes")
        self._places.arrays.append(f"uint32_t {name}[compll::STRIP];")
        self._places.element.append(f"{name}[i] = uint32_t({self._local(sink.value)});")
        pointer = self._memory.pointer(buffer)
        self._places.strip.append(
            f"compll::pack<{buffer.dtype.bits}>({name}, {self._strip.origin}, count, {pointer});"
        )

    def _fold(self, sink: ir.Fold) -> None:
        ctype, combine = self._combine(sink.combine, self._dtypes[sink.value], sink.results[0].name)
        fold = self._object(sink.results[0], f"compll::Fold<{ctype}>", "length", combine)
        lanes = f"{fold}_lanes"
        self._places.chunk.append(f"compll::Lanes<{ctype}> {lanes}({combine});")
        self._places.strip.append(f"{lanes}.add({self.array(sink.value)}, count, first);")
        self._places.chunk_end.append(f"{fold}.put(chunk, {lanes});")
        self._places.finish.append(f"const auto {fold}_result = {fold}.result();")
        members = (".mean", ".m2") if sink.combine.kind == "moments" else ("",)
        for result, member in zip(sink.results, members):
            line = self._memory.store(self._memory.buffer(result), self._row_index(), f"{fold}_result{member}")
            self._places.finish.append(line)

    def _scan(self, sink: ir.Scan) -> None:
        ctype, combine = self._combine(sink.combine, self._dtypes[sink.value], sink.result.name)
        exclusive = "true" if sink.exclusive else "false"
        scan = self._object(sink.result, f"compll::Scan<{ctype}, {exclusive}>", "length", combine)
        self._places.chunk.append(f"auto {scan}_carry = {scan}.start();")
        self._places.strip.append(f"{scan}.add(first, count, {self.array(sink.value)}, {scan}_carry);")
        self._places.chunk_end.append(f"{scan}.put(chunk, {scan}_carry);")
        target = self._memory.buffer(sink.result)
        store = self._memory.store(target, self._in_row("length", "j"), f"{scan}.at(j)")
        self._places.finish += [f"{scan}.complete();", *self._each("length", [store])]
        if self._bounded:
            self._zero_rest(sink.result, "length", self._memory.segment.size(sink.result.shape[-1]))

    def _each(self, extent: str, lines: list[str]) -> list[str]:
        """A loop over j in 0 .. extent - 1 by all threads of the team."""
        return [
            f"compll::for_ranges({self._team}, {extent}, [&](int, int64_t begin, int64_t end) {{",
            "    for (int64_t j = begin; j < end; j++) {",
            *(f"        {line}" for line in lines),
            "    }",
            "});",
        ]

    def _keep(self, sink: ir.Keep) -> None:
        types = ", ".join(self._ctype(name) for _, name in sink.carried)
        limit = self._memory.segment.size(sink.limit)
        keep = self._object(sink.index, f"compll::Keep<{types}>", "length", limit, self._team)
        arrays = [self.array(sink.predicate), *(self.array(name) for _, name in sink.carried)]
        self._places.start.append(f"{keep}.start(worker, begin);")
        self._places.strip.append(f"{keep}.add(worker, first, count, {', '.join(arrays)});")
        lines = [self._memory.store(self._memory.buffer(sink.index), "j", f"uint32_t({keep}.position(j))")]
        for number, (result, _) in enumerate(sink.carried):
            lines.append(self._memory.store(self._memory.buffer(result), "j", f"{keep}.value<{number}>(j)"))
        self._places.finish += [
            f"{keep}.complete({self._memory.segment.field('step')});",
            self._memory.store(self._memory.buffer(sink.count), "0", f"{keep}.count()"),
            self._memory.store(self._memory.buffer(sink.cut), "0", f"{keep}.cut()"),
            *self._each(f"{keep}.count()", lines),
        ]
        for result in (sink.index, *(value for value, _ in sink.carried)):
            self._zero_rest(result, f"{keep}.count()", limit)

    def _top(self, sink: ir.Top) -> None:
        names = (sink.key, *(name for _, name in sink.carried))
        k = self._memory.segment.size(sink.k)
        top = self._select(sink.index, names, k)
        lines = [f"const bool chosen = j < {top}.count();"]
        at = f"chosen ? uint32_t({top}.position(j)) : uint32_t(length)"
        lines.append(self._memory.store(self._memory.buffer(sink.index), self._in_row(k, "j"), at))
        for number, (result, name) in enumerate(sink.carried):
            value = f"chosen ? {top}.value<{number}>(j) : {constant(0, self._dtypes[name])}"
            lines.append(self._memory.store(self._memory.buffer(result), self._in_row(k, "j"), value))
        self._places.finish += self._each(k, lines)

    def _kth(self, sink: ir.Kth) -> None:
        k = f"std::max<int64_t>(1, {self._memory.segment.size(sink.k)})"
        kth = self._select(sink.result, (sink.key,), k)
        line = self._memory.store(self._memory.buffer(sink.result), self._row_index(), f"{kth}.kth()")
        self._places.finish.append(line)

    def _select(self, value: ir.Value, names: tuple[str, ...], k: str) -> str:
        types = ", ".join(self._ctype(name) for name in names)
        top = self._object(value, f"compll::Top<{types}>", "length", k, self._team)
        self._places.declare += self._selection.sample(top, names[0])
        self._places.start.append(f"{top}.start(worker, begin);")
        arrays = ", ".join(self.array(name) for name in names)
        self._places.strip.append(f"{top}.add(worker, first, count, {arrays});")
        self._places.finish += self._selection.complete(top, names)
        return top

    def _put(self, sink: ir.Put) -> None:
        buffer = self._memory.buffer(sink.result)
        self._places.prepare += self._base(sink, buffer)
        index, value = self.array(sink.index), self.array(sink.value)
        extent = self._memory.segment.size(sink.result.shape[-1])
        at = f"{index}[i]"
        if len(sink.result.shape) == 2:
            at = f"{self._strip.row()} * {extent} + {index}[i]"
        condition = f"compll::inside({index}[i], {extent})"
        if self._memory.segment.is_padded(buffer):
            condition += f" && compll::inside({at}, {self._memory.segment.field('numel')})"
        self._places.run += [
            "for (int i = run; i < run_end; i++) {",
            f"    if ({condition}) {self._memory.store(buffer, at, f'{value}[i]')}",
            "}",
        ]

    def _base(self, sink: ir.Put, buffer: Buffer) -> list[str]:
        """The result before anything is put: zeros, a copy, or what is there already."""
        total = self._memory.total(sink.result)
        if sink.base is None:
            if buffer.role == "section":
                return []
            return [f"compll::zero({self._memory.pointer(buffer)}, 0, {total}, threads);"]
        source = self._memory.buffer(sink.base)
        if source.name == buffer.name:
            return []
        line = self._memory.store(buffer, "j", self._memory.element(source, "j"))
        return self._each(total, [line])


def is_scalar_sweep(sweep: ir.Sweep) -> bool:
    """Whether there is one position and nothing but writes."""
    return not sweep.shape and all(isinstance(s, ir.Write) for s in sweep.sinks)
