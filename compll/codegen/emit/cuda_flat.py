"""A sweep that is walked flat, while it is printed: one launch over the space, and others before and after.

The main launch evaluates the body once at every position, 64 threads to a chunk of 4096. Sinks add lines to it: at
every position, by whole warps behind it, at the end of a chunk, and in the last block of a segment.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from compll.codegen import ir
from compll.codegen.emit.cuda_context import Context, DeviceFunction, Turns, comments_of
from compll.codegen.emit.cuda_launch import Work
from compll.codegen.emit.cuda_replay import Lines, SweepBody
from compll.codegen.emit.cuda_spelling import RESERVED
from compll.codegen.emit.environment import render
from compll.codegen.emit.names import Names
from compll.dtypes import DType
from compll.sizes import Size, product


@dataclass(frozen=True, slots=True, kw_only=True)
class FlatView:
    """templates/cuda/flat.cu.j2; `collected` declares what `collectives` use of a position, zero beyond the extent."""

    comments: Sequence[str]
    name: str
    segment: str
    active: str
    uniform: Sequence[str]
    ahead: Sequence[str]
    loads: Sequence[str]
    collected: Sequence[str]
    body: Sequence[str]
    collectives: Sequence[str]
    epilogue: Sequence[str]
    last: Sequence[str]


@dataclass
class FlatSweep:
    """What the sinks of one sweep have added so far; `main` is the body as the main launch evaluates it."""

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
    after: list[DeviceFunction | Turns] = field(default_factory=list)
    pool: int = 0  # bytes of shared memory that sinks have taken

    @classmethod
    def of(cls, context: Context, kernel: str, sweep: ir.Sweep) -> FlatSweep:
        body = SweepBody(context=context, kernel=kernel, sweep=sweep, by_rows=False)
        main = body.print_first()
        return cls(context, kernel, sweep, body, main, Names((*RESERVED, *main.names)))

    @property
    def space(self) -> Size:
        return product(self.sweep.shape)

    @property
    def extent_line(self) -> str:
        return f"const index_t extent = {self.context.memory.space(self.sweep.shape, self.sweep.count)};"

    def dtype(self, statement: str) -> DType:
        return self.body.statement(statement).dtype

    def part(self, name: str, part: str) -> str:
        """`name_part`, or `part` alone where the kernel is called by that name already."""
        return part if name == self.kernel else f"{name}_{part}"

    def add_scratch(self, name: str, part: str, ctype: str, element_bytes: int, count: Size) -> str:
        """Scratch for the sink that makes `name`."""
        return self.context.add_scratch(f"{self.kernel}_{self.part(name, part)}", ctype, element_bytes, count)

    def call(self, phase: str, body: Sequence[str], uniform: Sequence[str] = (), pool: int = 0) -> DeviceFunction:
        """Another walk over the same space."""
        uniform = [self.extent_line, *uniform]
        return self.context.call(self.kernel, phase, body, work=Work(self.space), uniform=uniform, pool=pool)

    def main_walk(self) -> DeviceFunction:
        """The walk that evaluates the body, with everything that the sinks have added."""
        name = self.context.function_name(self.kernel)
        view = FlatView(
            comments=comments_of(self.sweep.origin), name=name, segment=self.context.segment,
            active=self.context.active,
            uniform=[self.extent_line, *self.main.uniform, *self.uniform],
            ahead=self.main.ahead.declarations, loads=self.main.ahead.lines, collected=self.collected,
            body=[*self.main.inner, *self.body.store_lines(self.main), *self.inner], collectives=self.collectives,
            epilogue=self.epilogue, last=self.last,
        )  # fmt: skip
        return DeviceFunction(
            name=name, text=render("cuda/flat.cu.j2", view), work=Work(self.space), pool=self.pool,
            streamed=self.context.streamed(self.sweep.shape, own_arrays(self.sweep)),
        )  # fmt: skip


def own_arrays(sweep: ir.Sweep) -> list[ir.Value]:
    """The arrays that a sweep reads and writes at its own position."""
    read = [s.source for s in sweep.body if s.opcode == "load" and s.source is not None]
    return [*read, *(sink.result for sink in sweep.sinks if isinstance(sink, ir.Write))]
