"""What the printers of CUDA kernels share: the function they print, its scratch, and text that several need."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from compll.codegen import ir
from compll.codegen.emit.cuda_launch import THREADS, Scratch, Work
from compll.codegen.emit.cuda_memory import Memory
from compll.codegen.emit.environment import render
from compll.codegen.emit.expr import constant
from compll.codegen.emit.names import Names, identifier
from compll.codegen.plan import KernelPlan, record_fields
from compll.sizes import Num, Size, product

CTYPE_BYTES = {
    "float": 4, "uint32_t": 4, "int32_t": 4, "double": 8, "int64_t": 8, "uint64_t": 8,
    "bool": 1, "uint8_t": 1, "uint16_t": 2,
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class CallView:
    """A kernel that hands lambdas to the device library: templates/cuda/call.cu.j2."""

    comments: Sequence[str]
    name: str
    segment: str
    active: str
    uniform: Sequence[str]
    body: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceFunction:
    """The text of a function that serves one tile, `<name>_tile(s, tile, pool)`, and what its launch must have.

    `pool` bytes of shared memory are the function's while it runs. `streamed` is a measure of what it moves: the bytes
    of a position, of a function that walks the whole gradient (else 0).
    """

    name: str
    text: str
    work: Work
    block: int = THREADS
    pool: int = 0
    streamed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Turns:
    """Functions that run in order, and all of them `count` times.

    `active`, where not "", is a flag of the segment; behind the first `decided` steps, a turn in which it is 0 for all
    segments may be the last.
    """

    count: int
    steps: tuple[DeviceFunction | Turns, ...]
    active: str = ""
    decided: int = 0


@dataclass
class Context:
    """One function of the program while it is printed.

    `active` is the flag of the innermost loop around the kernel being printed ("" outside loops): a segment whose
    flag is 0 has left the loop.
    """

    plan: KernelPlan
    memory: Memory
    scratch: list[Scratch] = field(default_factory=list)
    active: str = ""
    _names: Names = field(default_factory=Names)

    def __post_init__(self) -> None:
        self._names = Names(identifier(f.name) for f in record_fields(self.plan))
        self.add_scratch("arrivals", "unsigned", 4, Num(1))

    @property
    def segment(self) -> str:
        words = self.plan.function.split("_")
        return "".join(word.capitalize() for word in words) + "Segment"

    def function_name(self, kernel: str, phase: str = "") -> str:
        return identifier("_".join(part for part in (self.plan.function, kernel, phase) if part))

    def add_scratch(self, name: str, ctype: str, element_bytes: int, count: Size) -> str:
        """A new scratch array as text (`s.<name>`)."""
        name = self._names.fresh(name)
        self.scratch.append(Scratch(name=name, ctype=ctype, element_bytes=element_bytes, count=count))
        return f"s.{name}"

    def call(
        self, kernel: str, phase: str, body: Iterable[str], *, work: Work, uniform: Sequence[str] = (),
        comments: Sequence[str] = (), block: int = THREADS, pool: int = 0, streamed: int = 0,
    ) -> DeviceFunction:  # fmt: skip
        """A function made of `body`, mostly a library call."""
        name = self.function_name(kernel, phase)
        view = CallView(
            comments=comments, name=name, segment=self.segment, active=self.active, uniform=uniform, body=tuple(body)
        )
        text = render("cuda/call.cu.j2", view)
        return DeviceFunction(name=name, text=text, work=work, block=block, pool=pool, streamed=streamed)

    def streamed(self, shape: tuple[Size, ...], values: Iterable[ir.Value]) -> int:
        """What a walk over a space moves for each position of it, of these arrays; 0 where it is not the gradient's."""
        if product(shape) != product(self.plan.gradient.shape):
            return 0
        buffers = {buffer.name: buffer for buffer in map(self.memory.buffer, values) if buffer.shape}
        return sum(-(-buffer.dtype.bits // 8) for buffer in buffers.values())


def lambda_lines(name: str, parameters: str, body: Iterable[str]) -> list[str]:
    """`const auto name = [&](parameters) { body };`"""
    return [f"const auto {name} = [&]({parameters}) {{", *(f"    {line}" for line in body), "};"]


def zero_of(value: ir.Value) -> str:
    """A zero of the value's compute type."""
    return constant(0, value.dtype)


def comments_of(origin: str) -> tuple[str, ...]:
    """The program's lines from which a step comes, as comment lines."""
    return tuple(line.strip() for line in origin.replace(" | ", "\n").splitlines() if line.strip())
