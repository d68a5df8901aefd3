"""Where a value lies and how it is read and written in generated CUDA: the record of a segment and its buffers."""

from __future__ import annotations

from dataclasses import dataclass, field

from compll.codegen import ir
from compll.codegen.emit.expr import compute_ctype, from_storage, storage_ctype, to_storage
from compll.codegen.emit.names import identifier
from compll.codegen.plan import Buffer, KernelPlan, payload_of
from compll.diagnostics import InternalError
from compll.dtypes import BOOL, F32, I64, U32, DType
from compll.sizes import Apply, Num, Size, Var

_INFIX = {"add": "+", "sub": "-", "mul": "*"}
_LEAVES_FUNCTION = ("section", "state", "residual", "out")


@dataclass(frozen=True)
class Memory:
    """The buffers and sizes of a plan as C text; `s` is the segment's record in every kernel."""

    plan: KernelPlan
    kept: dict[str, Buffer] = field(default_factory=dict)  # scratch that holds values of a sweep, by the values' names
    _sizes: dict[Size, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, size in reversed((*self.plan.sizes, *self.plan.numbers)):
            self._sizes[size] = name
            self._sizes[Var(name)] = name
        self._sizes[Var("numel")] = "numel"

    def size(self, size: Size) -> str:
        """A size as an expression of type int64_t."""
        match size:
            case Num(value):
                return f"int64_t({int(value)})"
            case Apply(operation, arguments) if size not in self._sizes and operation in _INFIX:
                return "(" + f" {_INFIX[operation]} ".join(self.size(a) for a in arguments) + ")"
            case _ if size in self._sizes:
                return f"s.{identifier(self._sizes[size])}"
            case _:
                raise InternalError(f"function `{self.plan.function}`: size `{size}` needs a field of the record")

    def index(self, size: Size) -> str:
        """A size as an expression of type index_t."""
        return f"index_t({self.size(size)})"

    def length(self, value: ir.Value) -> str:
        """The length of an array along its last axis: its count where it is bounded, else its extent."""
        if value.count is not None:
            return self.count(value.count)
        return self.index(value.shape[-1])

    def count(self, name: str) -> str:
        """A count, the scalar u32 value `name`."""
        return f"index_t({self.load(ir.Value(name=name, dtype=U32), '0')})"

    def space(self, shape: tuple[Size, ...], count: str | None = None) -> str:
        """How many positions a space has."""
        if count is not None:
            return self.count(count)
        return " * ".join(self.index(size) for size in shape) or "index_t(1)"

    def buffer(self, value: ir.Value) -> Buffer:
        return self.kept.get(value.name) or self.plan.buffer_of(value)

    def pointer(self, value: ir.Value) -> str:
        """The first element of a buffer that is no packed section."""
        buffer = self.buffer(value)
        if buffer.section is None:
            return f"s.{identifier(buffer.name)}"
        return f"reinterpret_cast<{self.storage(buffer)}*>({self.section(buffer)})"

    def storage(self, buffer: Buffer) -> str:
        return storage_ctype(buffer.dtype)

    def section(self, buffer: Buffer) -> str:
        """The first byte of a section."""
        assert buffer.section is not None
        return f"(s.{payload_of(buffer)} + {self.size(buffer.section.offset)})"

    def is_packed(self, value: ir.Value) -> bool:
        section = self.buffer(value).section
        return section is not None and section.coding == "packed"

    def is_cut_off(self, value: ir.Value) -> bool:
        """Whether memory ends with the gradient's last element, before the last block of the view does."""
        buffer = self.buffer(value)
        dense = buffer.role in ("gradient", "residual", "out") and bool(value.shape)
        return dense and self.plan.gradient.kind == "blocks"

    def load(self, value: ir.Value, index: str) -> str:
        """Element `index` (a name or literal) in the compute type."""
        buffer = self.buffer(value)
        if self.is_packed(value):
            code = f"compll::load_packed<{buffer.dtype.bits}>({self.section(buffer)}, {index})"
            return f"({code} != 0)" if buffer.dtype == BOOL else code
        if buffer.section is not None and buffer.dtype == I64:
            return f"compll::load_i64({self.section(buffer)}, {index})"
        element = from_storage(buffer.dtype, f"{self.pointer(value)}[{index}]")
        if self.is_cut_off(value):
            return f"({index} < s.numel ? {element} : {_zero(buffer.dtype)})"
        return element

    def store(self, value: ir.Value, index: str, text: str) -> str:
        """A statement that stores `text`, of the compute type, as element `index`."""
        buffer = self.buffer(value)
        if buffer.section is not None and buffer.dtype == I64:
            return f"compll::store_i64({self.section(buffer)}, {index}, {text});"
        if buffer.dtype == F32 and buffer.role in _LEAVES_FUNCTION:
            text = f"compll::canonical({text})"
        guard = f"if ({index} < s.numel) " if self.is_cut_off(value) else ""
        return f"{guard}{self.pointer(value)}[{index}] = {to_storage(buffer.dtype, text)};"

    def holds(self, value: ir.Value, dtype: DType) -> bool:
        """Whether what is stored as `value` reads back as it was (but for a NaN's bits)."""
        return self.buffer(value).dtype == dtype and not self.is_packed(value) and not self.is_cut_off(value)


def _zero(dtype: DType) -> str:
    return f"{compute_ctype(dtype)}(0)"
