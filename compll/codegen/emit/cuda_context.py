"""What the printers of CUDA kernels share: the function they print, its scratch, and text that several need."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from compll.codegen import ir
from compll.codegen.emit.cuda_launch import THREADS, TILE, Launch, Scratch, launch_bounds
from compll.codegen.emit.cuda_memory import Memory
from compll.codegen.emit.environment import render
from compll.codegen.emit.expr import constant
from compll.codegen.emit.names import Names, identifier
from compll.codegen.plan import KernelPlan, record_fields
from compll.sizes import Num, Size

CTYPE_BYTES = {
    "float": 4, "uint32_t": 4, "int32_t": 4, "double": 8, "int64_t": 8, "bool": 1, "uint8_t": 1, "uint16_t": 2,
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class CallView:
    """A kernel that hands lambdas to the device library: templates/cuda/call.cu.j2."""

    comments: Sequence[str]
    bounds: str
    name: str
    segment: str
    active: str
    uniform: Sequence[str]
    body: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceFunction:
    """The text of one kernel and how it is launched."""

    text: str
    launch: Launch


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
        self, kernel: str, phase: str, body: Iterable[str], *, work: Size | None, per_tile: int = TILE,
        uniform: Sequence[str] = (), comments: Sequence[str] = (), block: int = THREADS,
    ) -> DeviceFunction:  # fmt: skip
        """A kernel made of `body`, mostly a library call."""
        name = self.function_name(kernel, phase)
        view = CallView(
            comments=comments, bounds=launch_bounds(block), name=name, segment=self.segment, active=self.active,
            uniform=uniform, body=tuple(body),
        )  # fmt: skip
        launch = Launch(function=name, work=work, per_tile=per_tile, block=block)
        return DeviceFunction(text=render("cuda/call.cu.j2", view), launch=launch)


def lambda_lines(name: str, parameters: str, body: Iterable[str]) -> list[str]:
    """`const auto name = [&](parameters) { body };`"""
    return [f"const auto {name} = [&]({parameters}) {{", *(f"    {line}" for line in body), "};"]


def zero_of(value: ir.Value) -> str:
    """A zero of the value's compute type."""
    return constant(0, value.dtype)


def comments_of(origin: str) -> tuple[str, ...]:
    """The program's lines from which a step comes, as comment lines."""
    return tuple(line.strip() for line in origin.replace(" | ", "\n").splitlines() if line.strip())
