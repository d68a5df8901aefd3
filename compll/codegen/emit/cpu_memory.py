"""How a CPU kernel reaches arrays, draws and positions: the `Spelling` of strips of 64 positions."""

from __future__ import annotations

from compll.codegen import ir
from compll.codegen.emit.expr import Level, compute_ctype, constant, from_storage, storage_ctype, to_storage
from compll.codegen.emit.names import Names
from compll.codegen.emit.segment import Segment
from compll.codegen.plan import Buffer, KernelPlan, payload_of
from compll.diagnostics import InternalError
from compll.dtypes import U32
from compll.sizes import Size

#: What the surrounding text of a kernel calls its own things.
RESERVED = (
    "segment", "threads", "team", "worker", "begin", "end", "chunk", "stop", "first", "count", "i", "j", "row",
    "length", "rows", "origin", "run", "run_end", "positions",
)  # fmt: skip


class Memory:
    """Pointers and streams of one kernel, declared once at its top, in order of first use."""

    def __init__(self, plan: KernelPlan, segment: Segment, written: frozenset[str]):
        self.segment = segment
        self.names = Names(RESERVED)
        self.declarations: list[str] = []
        self._plan = plan
        self._written = written
        self._pointers: dict[str, str] = {}
        self._uniform: dict[str, str] = {}

    def buffer(self, value: ir.Value) -> Buffer:
        return self._plan.buffer_of(value)

    def pointer(self, buffer: Buffer) -> str:
        """The local pointer to a buffer's first element (first byte of a packed section)."""
        if buffer.name not in self._pointers:
            name = self.names.fresh(buffer.name)
            self._pointers[buffer.name] = name
            self.declarations.append(self._declare(buffer, name))
        return self._pointers[buffer.name]

    def _declare(self, buffer: Buffer, name: str) -> str:
        constant_ = "" if buffer.name in self._written else "const "
        if buffer.section is None:
            return f"{constant_}{storage_ctype(buffer.dtype)}* const {name} = {self.segment.field(buffer.name)};"
        address = f"{self.segment.field(payload_of(buffer))} + {self.segment.size(buffer.section.offset)}"
        if is_packed(buffer):
            return f"{constant_}uint8_t* const {name} = {address};"
        ctype = f"{constant_}compll::wire_{storage_ctype(buffer.dtype)}"
        return f"{ctype}* const {name} = reinterpret_cast<{ctype}*>({address});"

    def uniform(self, name: str, ctype: str, text: str) -> str:
        """A constant of the kernel with this text, declared where it is new."""
        if text not in self._uniform:
            fresh = self.names.fresh(name)
            self._uniform[text] = fresh
            self.declarations.append(f"const {ctype} {fresh} = {text};")
        return self._uniform[text]

    def stream(self, number: int, shared: bool) -> str:
        field = self.segment.field
        owner = "0u" if shared else f"uint32_t({field('owner')})"
        words = [
            f"uint32_t({field('seed')})", owner, f"uint32_t({field('step')})", f"uint32_t({field('gradient_id')})",
            f"{number}u", field("base"),
        ]  # fmt: skip
        return self.uniform(f"stream_{number}", "compll::Stream", f"compll::Stream{{{', '.join(words)}}}")

    def element(self, buffer: Buffer, index: str) -> str:
        """The element at an index that is inside, in the compute type."""
        if is_packed(buffer):
            text = f"compll::unpack_at<{buffer.dtype.bits}>({self.pointer(buffer)}, {index})"
            return from_storage(buffer.dtype, text) if buffer.dtype.kind == "bool" else text
        return from_storage(buffer.dtype, f"{self.pointer(buffer)}[{index}]")

    def scalar(self, value: ir.Value) -> str:
        return self.element(self.buffer(value), "0")

    def store(self, buffer: Buffer, index: str, value: str) -> str:
        """The statement that stores a value of the compute type at an index that is inside."""
        if is_packed(buffer):
            if index != "0":
                raise InternalError(f"buffer `{buffer.name}`: a packed section takes whole strips only")
            return f"compll::pack_one<{buffer.dtype.bits}>(uint32_t({value}), {self.pointer(buffer)});"
        return f"{self.pointer(buffer)}[{index}] = {stored(buffer, value)};"

    def length(self, value: ir.Value) -> str:
        """How many elements of a row of the array there are: its count, or its extent."""
        extent = self.segment.size(value.shape[-1])
        return extent if value.count is None else self.count(value.count, extent)

    def count(self, count: str, extent: str) -> str:
        """The count of a bounded space or array, at most `extent`."""
        value = ir.Value(name=count, dtype=U32)
        text = f"std::min<int64_t>({self.scalar(value)}, {extent})"
        return self.uniform(count, "int64_t", text)

    def total(self, value: ir.Value) -> str:
        """The number of elements that there is memory for."""
        padded = self.segment.is_padded(self.buffer(value))
        return self.segment.field("numel") if padded else self.segment.product(value.shape)


class Strip:
    """The `Spelling` inside a sweep over strips. `before` fills up with lines that stage what no element reads alone.

    `rowwise`: the strip lies in row `row` and `origin` = row * length + first. Otherwise a strip of a matrix may cross
    rows; where anything asks for the row (`by_runs`), the strip is walked in runs that do not.
    """

    def __init__(self, memory: Memory, shape: tuple[Size, ...], rowwise: bool, names: Names):
        self.before: list[str] = []
        self.names = names
        self.by_runs = False
        self._memory = memory
        self._shape = shape
        self._rowwise = rowwise
        self._staged: dict[str, str] = {}
        self._inside = Level.ELEMENT if shape else Level.UNIFORM

    @property
    def origin(self) -> str:
        """The flat position of the strip's first element."""
        return "origin" if self._rowwise else "first"

    @property
    def at(self) -> str:
        """The own flat position."""
        return f"{self.origin} + i" if self._shape else "0"

    @property
    def columns(self) -> str:
        return self._memory.segment.size(self._shape[-1]) if self._shape else "1"

    def row(self) -> str:
        self.by_runs = not self._rowwise
        return "row"

    # --- Spelling -----------------------------------------------------------------------------------------------------

    def load(self, statement: ir.Statement) -> tuple[str, Level]:
        source = _source(statement)
        buffer = self._memory.buffer(source)
        if not source.shape:
            return self._memory.element(buffer, "0"), Level.UNIFORM
        if len(source.shape) < len(self._shape):
            return self._memory.element(buffer, self.row()), Level.ROW
        if is_packed(buffer) or self._memory.segment.is_padded(buffer):
            return self._staged_element(buffer), Level.ELEMENT
        return self._memory.element(buffer, self.at), Level.ELEMENT

    def _staged_element(self, buffer: Buffer) -> str:
        if buffer.name not in self._staged:
            name = self.names.fresh(f"{buffer.name}_strip")
            self._staged[buffer.name] = name
            ctype = "uint32_t" if is_packed(buffer) else storage_ctype(buffer.dtype)
            self.before.append(f"{ctype} {name}[compll::STRIP];")
            self.before.append(self._fill(buffer, name))
        element = f"{self._staged[buffer.name]}[i]"
        if is_packed(buffer):
            return f"{element} != 0" if buffer.dtype.kind == "bool" else element
        return from_storage(buffer.dtype, element)

    def _fill(self, buffer: Buffer, name: str) -> str:
        pointer = self._memory.pointer(buffer)
        if is_packed(buffer):
            return f"compll::unpack<{buffer.dtype.bits}>({pointer}, {self.origin}, count, {name});"
        numel = self._memory.segment.field("numel")
        return f"compll::load_padded({pointer}, {self.origin}, count, {numel}, {name});"

    def load_at(self, statement: ir.Statement, index: str) -> tuple[str, Level]:
        source = _source(statement)
        buffer = self._memory.buffer(source)
        inside = f"compll::inside({index}, {self._memory.length(source)})"
        at, level = index, Level.UNIFORM
        if len(source.shape) == 2:
            at = f"{self.row()} * {self._memory.segment.size(source.shape[1])} + {index}"
            level = Level.ROW
        if self._memory.segment.is_padded(buffer):
            inside += f" && compll::inside({at}, {self._memory.segment.field('numel')})"
        return f"{inside} ? {self._memory.element(buffer, at)} : {constant(0, source.dtype)}", level

    def draw(self, statement: ir.Statement, position: str | None) -> tuple[str, Level]:
        number, shared = statement.attribute("stream"), bool(statement.attribute("shared"))
        assert isinstance(number, int)
        stream = self._memory.stream(number, shared)
        level = Level.UNIFORM if position else self._inside
        at = position or self.at
        match statement.opcode:
            case "uniform":
                bits = statement.attribute("bits")
                if position is None and self._shape:
                    return self._staged_draw(statement, f"uniform_strip<{bits}>", stream), level
                return f"compll::uniform{bits}({stream}, {at})", level
            case "normal":
                return f"compll::normal({stream}, {at})", level
            case "sample_index":
                extent = self._extent(statement)
                if position is None and self._shape:
                    return self._staged_draw(statement, "sample_strip", stream, extent), level
                return f"compll::sample_index({stream}, {at}, {extent})", level
            case _:
                text = f"compll::permutation({stream}, {self._extent(statement)})"
                permutation = self._memory.uniform(f"{stream}_permutation", "compll::Permutation", text)
                if position is None and self._shape:
                    return self._staged_draw(statement, "choose_strip", permutation), level
                return f"compll::choose({permutation}, {at})", level

    def _staged_draw(self, statement: ir.Statement, function: str, source: str, *further: str) -> str:
        """The draws of a whole strip, made before its elements: side by side, and known before what they address."""
        fill = f"compll::{function}({', '.join((source, self.origin, 'count', *further))}"
        if fill not in self._staged:
            strip = self.names.fresh(f"{statement.name}_strip")
            self._staged[fill] = strip
            self.before.append(f"{compute_ctype(statement.dtype)} {strip}[compll::STRIP];")
            self.before.append(f"{fill}, {strip});")
        return f"{self._staged[fill]}[i]"

    def _extent(self, statement: ir.Statement) -> str:
        extent = statement.attribute("extent")
        assert not isinstance(extent, (int, float, str))
        return self._memory.segment.size(extent)

    def position(self, axis: str) -> tuple[str, Level]:
        if not self._shape:
            return "0u", Level.UNIFORM
        if axis == "flat" or (axis == "column" and len(self._shape) == 1):
            return f"uint32_t({self.origin}) + uint32_t(i)", Level.ELEMENT
        if len(self._shape) == 1:
            return "0u", Level.UNIFORM
        if axis == "column" and self._rowwise:
            return "uint32_t(first) + uint32_t(i)", Level.ELEMENT
        if axis == "column":
            return f"uint32_t(first - {self.row()} * {self.columns}) + uint32_t(i)", Level.ELEMENT
        return f"uint32_t({self.row()})", Level.ROW

    def parameter(self, name: str) -> str:
        return self._memory.segment.field(name)

    def size(self, size: Size) -> str:
        return self._memory.segment.size(size)


def is_packed(buffer: Buffer) -> bool:
    return buffer.section is not None and buffer.section.coding == "packed"


def stored(buffer: Buffer, value: str) -> str:
    """A value of the compute type as an element of the buffer; NaNs that leave the function are canonical."""
    leaves = buffer.role in ("section", "residual", "state", "out")
    if leaves and buffer.dtype.name in ("f32", "f64"):
        value = f"compll::canonical({value})"
    return to_storage(buffer.dtype, value)


def _source(statement: ir.Statement) -> ir.Value:
    if statement.source is None:
        raise InternalError(f"statement `{statement.name}`: a load needs a source")
    return statement.source
