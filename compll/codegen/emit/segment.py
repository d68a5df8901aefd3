"""The segment record as C text: the struct of a plan, and how kernels speak of its fields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from compll.codegen.emit.expr import compute_ctype, storage_ctype
from compll.codegen.emit.names import identifier
from compll.codegen.plan import Buffer, KernelPlan, record_fields
from compll.diagnostics import InternalError
from compll.dtypes import NAMED, DType
from compll.sizes import Apply, Num, Size, Var

_EXACT = {"add": "+", "sub": "-", "mul": "*"}


@dataclass(frozen=True, slots=True)
class StructField:
    """One member of the struct; what is narrower than 8 bytes is padded."""

    declaration: str


class Segment:
    """Names of one plan's segment record; `variable` is what kernels call the record."""

    def __init__(self, plan: KernelPlan, variable: str = "segment"):
        self._plan = plan
        self._variable = variable
        self._names: Mapping[str, str] = {f.name: identifier(f.name) for f in record_fields(plan)}
        self._sizes: dict[Size, str] = {Var("numel"): "numel"}
        for name, size in (*plan.sizes, *plan.numbers):
            self._sizes.setdefault(size, name)
            self._sizes.setdefault(Var(name), name)

    @property
    def struct(self) -> str:
        """EncodeWithFeedbackSegment, for encode_with_feedback."""
        return "".join(word.capitalize() for word in identifier(self._plan.function).split("_")) + "Segment"

    def fields(self) -> tuple[StructField, ...]:
        """The struct's members; each starts at a multiple of 8 bytes."""
        buffers = {b.name: b for b in self._plan.buffers}
        return tuple(
            StructField(f"alignas(8) {self._ctype(f.kind, f.ctype, buffers.get(f.name))}{self._names[f.name]};")
            for f in record_fields(self._plan)
        )

    def _ctype(self, kind: str, ctype: str, buffer: Buffer | None) -> str:
        if kind == "pointer":
            constant = "const " if buffer is not None and buffer.role == "gradient" else ""
            return f"{constant}{storage_ctype(buffer.dtype) if buffer else 'uint8_t'}* "
        names = {"i64": "int64_t ", "u64": "uint64_t ", "f64": "double "}
        return names.get(ctype) or f"{compute_ctype(NAMED[ctype])} "

    def field(self, name: str) -> str:
        """`segment.<name>`."""
        return f"{self._variable}.{self._names[name]}"

    def size(self, size: Size) -> str:
        """A size as an int64_t: a field, a literal, or whole-number arithmetic on those (double for `plan.numbers`)."""
        if size in self._sizes:
            return self.field(self._sizes[size])
        match size:
            case Num(value) if value == int(value):
                return str(int(value))
            case Apply(operation, arguments) if operation in _EXACT:
                return "(" + f" {_EXACT[operation]} ".join(self.size(a) for a in arguments) + ")"
        raise InternalError(f"function `{self._plan.function}`: size `{size}` is no field of the segment")

    def product(self, shape: tuple[Size, ...]) -> str:
        """The number of elements of a shape."""
        return " * ".join(self.size(s) for s in shape) or "1"

    def is_padded(self, buffer: Buffer) -> bool:
        """Whether the view is longer than the memory: zeros from `numel` on, which are never stored."""
        return self._plan.gradient.kind == "blocks" and buffer.role in ("gradient", "residual", "out")


def is_exact(dtype: DType) -> bool:
    """Whether memory holds just what the body computes with."""
    return storage_ctype(dtype) == compute_ctype(dtype)
