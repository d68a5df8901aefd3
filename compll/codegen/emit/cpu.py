"""Kernel plans as one C++ file for the CPU: a struct, the kernels and an entry point for every function."""

from __future__ import annotations

from dataclasses import dataclass

from compll.codegen.emit.cpu_steps import calls, print_kernel
from compll.codegen.emit.environment import render
from compll.codegen.emit.names import identifier
from compll.codegen.emit.segment import Segment, StructField
from compll.codegen.plan import KernelPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionView:
    """What `cpu/function.cpp.j2` places."""

    name: str
    struct: str
    fields: tuple[StructField, ...]
    kernels: tuple[str, ...]
    calls: tuple[str, ...]

    @property
    def text(self) -> str:
        return render("cpu/function.cpp.j2", self)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileView:
    """What `cpu/file.cpp.j2` places."""

    name: str
    functions: tuple[FunctionView, ...]


def emit(name: str, plans: tuple[KernelPlan, ...]) -> str:
    """The C++ file of a compressor.

    Every function becomes `extern "C" int <function>(const void* segments, int64_t count, int threads)`: it runs on
    `count` records (plan.record_fields) and returns 0, or 1 where memory ran out.
    """
    return render("cpu/file.cpp.j2", FileView(name=name, functions=tuple(_function(p) for p in plans)))


def _function(plan: KernelPlan) -> FunctionView:
    segment = Segment(plan)
    return FunctionView(
        name=identifier(plan.function),
        struct=segment.struct,
        fields=segment.fields(),
        kernels=tuple(print_kernel(plan, segment, k) for k in plan.kernels),
        calls=tuple(calls(plan, segment, plan.kernels)),
    )
