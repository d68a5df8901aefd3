"""What a backend is given: kernels in order, the buffers they work on, and the fields of a segment.

A *segment* is one gradient of a batch. Everything that differs between gradients (pointers, sizes, key, parameters) is
a field of the segment's record: 8 bytes each, the same record for every backend, so that one launch serves hundreds of
tensors. This module holds the types only; `kernels.py` makes plans, `emit/` prints them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Union

from compll.codegen import ir
from compll.codegen.layout import PayloadLayout, Section
from compll.dtypes import DType
from compll.sizes import Size

BufferRole = Literal["gradient", "residual", "state", "out", "report", "section", "previous", "temporary"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Buffer:
    """Memory that values live in.

    `gradient` (read only; dtype f32, f16 or bf16, widened on load), `residual` and `state` (updated in place), `out`
    (f32), `report` (the scalars `finite`, bool as u8, and `cut`, u32), `section` (a part of the payload, see `section`;
    the payload arrives zeroed), `previous` (a section of the payload that the last encode made), `temporary` (a part
    of the segment's workspace; a scalar has the empty shape). An array of a `blocks` view has `numel` elements in
    memory where the role is gradient, residual or out; elements beyond read as 0 and are not written.

    Names, by which the host hands memory in: `gradient`, `residual`, `state_<name>`, `out`, `finite`, `cut`, and
    `payload` and `previous` for all sections of one payload together.
    """

    name: str
    role: BufferRole
    dtype: DType
    shape: tuple[Size, ...]
    section: Section | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodeAscending:
    """Write the indices in `source` (u32, ascending) into an Elias-Fano section; `count` bounds them, or None."""

    source: ir.Value
    section: Section
    count: ir.Value | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeAscending:
    """Read an Elias-Fano section into `result` (u32); hostile bits give some index, none beyond the extent."""

    result: ir.Value
    section: Section
    count: ir.Value | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreCount:
    """Write a bounded section's count into the payload's header at byte `offset`."""

    source: ir.Value
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadCount:
    """Read a count from the header, clamped to `limit`."""

    result: ir.Value
    offset: int
    limit: Size


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeat:
    """An `ir.Loop` in kernels; the values of one carried name share a buffer, or the last body kernels copy them."""

    limit: int
    head: tuple[Kernel, ...]
    condition: ir.Value
    body: tuple[Kernel, ...]


Step = Union[
    ir.Sweep, ir.Sort, ir.MatMul, ir.Transpose, ir.Orthonormalize, ir.AllReduce,
    EncodeAscending, DecodeAscending, StoreCount, LoadCount, Repeat,
]  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """One step with a name unique in its plan and the pattern that `explain` shows (map, reduce, filter, select,
    scan, scatter, sort, scalar, matmul, ascending, count, loop; several joined by "+")."""

    name: str
    pattern: str
    step: Step


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelPlan:
    """One function, ready to print.

    `bindings` gives each value's buffer by names. Two values bound to one buffer are the same memory: a sweep may read
    the old and write the new value at its own position. `sizes` are the size expressions that kernels use, each a
    field of the segment record, by name, in an order in which each can be evaluated from `numel`, the dimensions, the
    parameters and those before it; `kernels.size_name` spells them. `numbers` are those that only `size` statements
    use and that need not be whole: f64 fields. `parameters` likewise.
    """

    function: str
    gradient: ir.GradientView
    buffers: tuple[Buffer, ...]
    bindings: tuple[tuple[str, str], ...]
    kernels: tuple[Kernel, ...]
    sizes: tuple[tuple[str, Size], ...]
    parameters: tuple[ir.Parameter, ...]
    layout: PayloadLayout
    numbers: tuple[tuple[str, Size], ...] = ()

    def buffer_of(self, value: ir.Value) -> Buffer:
        name = dict(self.bindings)[value.name]
        return next(b for b in self.buffers if b.name == name)


@dataclass(frozen=True, slots=True)
class RecordField:
    """A field of the segment record: 8 bytes, `kind` pointer | size | parameter | key; C type as text."""

    name: str
    kind: Literal["pointer", "size", "parameter", "key"]
    ctype: str


def payload_of(buffer: Buffer) -> str:
    """The record's pointer to the payload that a section buffer is a part of: `payload` or `previous`."""
    return "previous" if buffer.role == "previous" else "payload"


KEY_FIELDS = ("seed", "owner", "step", "gradient_id", "base")
"""Philox key words, counter words and the element offset of a partition (numerics.md); unsigned 64-bit each."""


def record_fields(plan: KernelPlan) -> tuple[RecordField, ...]:
    """The segment record, in order: a pointer for every buffer outside payloads, `payload` itself and, where it is
    read, `previous` (bytes), `numel` and the plan's sizes (i64), its numbers (f64), the parameters (f32, i32, u32 or
    bool in the low bytes), the key."""
    pointers = [RecordField(b.name, "pointer", b.dtype.name) for b in plan.buffers if b.section is None]
    previous = [RecordField("previous", "pointer", "u8")] if any(b.role == "previous" for b in plan.buffers) else []
    return (
        *pointers,
        RecordField("payload", "pointer", "u8"),
        *previous,
        RecordField("numel", "size", "i64"),
        *(RecordField(name, "size", "i64") for name, _ in plan.sizes),
        *(RecordField(name, "size", "f64") for name, _ in plan.numbers),
        *(RecordField(p.name, "parameter", p.dtype.name) for p in plan.parameters),
        *(RecordField(name, "key", "u64") for name in KEY_FIELDS),
    )
