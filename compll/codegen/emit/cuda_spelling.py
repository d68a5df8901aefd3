"""How a body says, in generated CUDA, what depends on memory and position."""

from __future__ import annotations

from dataclasses import dataclass, field

from compll.codegen import ir
from compll.codegen.emit.cuda_memory import Memory
from compll.codegen.emit.expr import Level, compute_ctype
from compll.codegen.emit.names import Names, identifier
from compll.sizes import Size

#: Names that kernels and library calls around a body use.
RESERVED = (
    "segments", "tiles", "tile", "s", "extent", "rows", "strip", "turn", "first", "i", "row", "column", "row_first",
    "key", "predicate", "value", "emit", "pad", "slot", "inside", "candidate", "bins", "left", "right", "next", "pool",
    "total",
)  # fmt: skip

_DRAWS = {"uniform": "uniform32", "normal": "normal", "choose": "choose", "sample_index": "sample_index"}


@dataclass
class AheadLoads:
    """Loads at the own position that a kernel makes for several strips before it evaluates the body for them."""

    names: Names
    loads: dict[str, tuple[str, str, str]] = field(default_factory=dict)  # text -> (C type, array, text)

    def add(self, source: ir.Value, text: str) -> str:
        """The element in the array that it is loaded into."""
        if text not in self.loads:
            self.loads[text] = (compute_ctype(source.dtype), self.names.fresh(f"{source.name}_ahead"), text)
        return f"{self.loads[text][1]}[next]"

    @property
    def declarations(self) -> list[str]:
        return [f"{ctype} {name}[compll::AHEAD];" for ctype, name, _ in self.loads.values()]

    @property
    def lines(self) -> list[str]:
        return [f"{name}[next] = {text};" for _, name, text in self.loads.values()]


@dataclass
class CudaSpelling:
    """The spelling of one body in a space of `shape`: position `i`, in rows also `row` and `column`.

    `generators` collects declarations of random streams that must stand in front of the body, by name. In a space that
    is walked flat, row and column are computed from `i`.
    """

    memory: Memory
    shape: tuple[Size, ...]
    by_rows: bool = False
    generators: dict[str, str] = field(default_factory=dict)
    ahead: AheadLoads | None = None

    @property
    def _row(self) -> tuple[str, Level]:
        if self.by_rows:
            return "row", Level.ROW
        return (f"i / {self.memory.index(self.shape[1])}" if len(self.shape) == 2 else "0"), Level.ELEMENT

    def load(self, statement: ir.Statement) -> tuple[str, Level]:
        source = _source(statement)
        if not source.shape:
            return self.memory.load(source, "0"), Level.UNIFORM
        if len(source.shape) < len(self.shape):
            row, level = self._row
            return self.memory.load(source, row), level
        text = self.memory.load(source, "i")
        return (self.ahead.add(source, text) if self.ahead else text), Level.ELEMENT

    def load_at(self, statement: ir.Statement, index: str) -> tuple[str, Level]:
        source = _source(statement)
        length = self.memory.length(source)
        inside = f"uint64_t({index}) < uint64_t({length})"  # a negative index is a large one
        zero = f"{compute_ctype(source.dtype)}(0)"
        if len(source.shape) == 1:
            return f"{inside} ? {self.memory.load(source, f'index_t({index})')} : {zero}", Level.UNIFORM
        row, level = self._row
        place = f"index_t({row}) * {length} + index_t({index})"
        return f"{inside} ? {self.memory.load(source, place)} : {zero}", level

    def draw(self, statement: ir.Statement, position: str | None) -> tuple[str, Level]:
        stream = self._stream(statement)
        if statement.opcode == "choose":
            stream = self._permutation(statement, stream)
        function = _DRAWS[statement.opcode]
        if statement.opcode == "uniform" and statement.attribute("bits") == 16:
            function = "uniform16"
        at, level = (position, Level.UNIFORM) if position else (self._flat, self._flat_level)
        more = f", {self._extent(statement)}" if statement.opcode == "sample_index" else ""
        return f"compll::{function}({stream}, {at}{more})", level

    @property
    def _flat(self) -> str:
        return "i" if self.shape else "0"

    @property
    def _flat_level(self) -> Level:
        return Level.ELEMENT if self.shape else Level.UNIFORM

    def position(self, axis: str) -> tuple[str, Level]:
        if not self.shape:
            return "0u", Level.UNIFORM
        if axis == "flat" or len(self.shape) == 1:
            return ("uint32_t(i)", Level.ELEMENT) if axis != "row" else ("0u", Level.UNIFORM)
        if axis == "row":
            row, level = self._row
            return f"uint32_t({row})", level
        column = "column" if self.by_rows else f"i % {self.memory.index(self.shape[1])}"
        return f"uint32_t({column})", Level.ELEMENT

    def parameter(self, name: str) -> str:
        return f"s.{identifier(name)}"

    def size(self, size: Size) -> str:
        return self.memory.size(size)

    def _extent(self, statement: ir.Statement) -> str:
        extent = statement.attribute("extent")
        assert not isinstance(extent, (int, float, str))
        return f"uint64_t({self.memory.size(extent)})"

    def _stream(self, statement: ir.Statement) -> str:
        number = int(float(str(statement.attribute("stream"))))
        shared = bool(statement.attribute("shared"))
        name = f"{'shared_' if shared else ''}stream_{number}"
        words = ["uint32_t(s.seed)", "0u" if shared else "uint32_t(s.owner)", "uint32_t(s.step)"]
        words += ["uint32_t(s.gradient_id)", f"{number}u", "s.base"]
        self.generators[name] = f"const compll::Stream {name} = {{{', '.join(words)}}};"
        return name

    def _permutation(self, statement: ir.Statement, stream: str) -> str:
        extent = self._extent(statement)
        base = stream.replace("stream", "permutation")
        declared = f"= compll::permutation({stream}, {extent});"
        taken = [name for name, text in self.generators.items() if name.startswith(base) and text.endswith(declared)]
        if taken:
            return taken[0]
        same = sum(name.startswith(base) for name in self.generators)
        name = f"{base}_{same + 1}" if same else base
        self.generators[name] = f"const compll::Permutation {name} {declared}"
        return name


def _source(statement: ir.Statement) -> ir.Value:
    assert statement.source is not None
    return statement.source
