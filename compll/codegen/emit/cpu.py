"""Kernel plans as one C++ file for the CPU: a struct, the kernels and an entry point for every function."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from compll.codegen.emit.cpu_steps import calls, print_kernel
from compll.codegen.emit.cpu_sweep import function_name
from compll.codegen.emit.environment import render
from compll.codegen.emit.names import identifier
from compll.codegen.emit.segment import Segment, StructField
from compll.codegen.plan import KernelPlan
from compll.codegen.rounds import parts
from compll.codegen.walks import MERGED, merges_in_one_walk


@dataclass(frozen=True, slots=True, kw_only=True)
class PartView:
    """What runs between two collectives: an entry of the library, and the calls that it makes for each segment."""

    name: str
    struct: str
    calls: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionView:
    """What `cpu/function.cpp.j2` places."""

    struct: str
    fields: tuple[StructField, ...]
    kernels: tuple[str, ...]
    parts: tuple[PartView, ...]

    @property
    def text(self) -> str:
        return render("cpu/function.cpp.j2", self)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileView:
    """What `cpu/file.cpp.j2` places; `merge` is the library's call that merges payloads, "" where there are none."""

    name: str
    functions: tuple[FunctionView, ...]
    merge: str

    @property
    def parts(self) -> tuple[PartView, ...]:
        return tuple(part for function in self.functions for part in function.parts)


def emit(name: str, plans: tuple[KernelPlan, ...]) -> str:
    """The C++ file of a compressor.

    Every entry of a function (`entries`) becomes `extern "C" int <entry>(const void* segments, int64_t count, int
    threads)`: it runs on `count` records (plan.record_fields) and returns 0, or 1 where memory ran out. Entries of one
    function are called in order with the same records; what temporaries hold must last from the first to the last.

    With payloads there is `int merge(const void* firsts, const void* others, const int64_t* ends, const float*
    divisors, int64_t rows, int threads)`, too: for each row, decode on its record of `firsts` (none where it is null),
    then decode_add on its records of `others`, which end at `ends`, and the sum divided by its divisor.
    """
    functions = tuple(_function(plan) for plan in plans)
    merge = _merge({plan.function: plan for plan in plans})
    return render("cpu/file.cpp.j2", FileView(name=name, functions=functions, merge=merge))


def entries(plan: KernelPlan) -> tuple[str, ...]:
    """What the parts of a function are called: the function's name where it has no collective."""
    name, count = identifier(plan.function), len(parts(plan))
    return (name,) if count == 1 else tuple(f"{name}_part_{number}" for number in range(count))


def _merge(plans: Mapping[str, KernelPlan]) -> str:
    if not plans.keys() >= set(MERGED):
        return ""
    if not merges_in_one_walk(plans):
        return "merge_in_turns(turns, rows, threads, run_decode, run_decode_add)"
    ranges = (f"{function_name(plans[name], plans[name].kernels[0])}_range" for name in MERGED)
    return f"merge_by_pieces(turns, rows, threads, {', '.join(ranges)})"


def _function(plan: KernelPlan) -> FunctionView:
    segment = Segment(plan)
    named = zip(entries(plan), parts(plan), strict=True)
    return FunctionView(
        struct=segment.struct,
        fields=segment.fields(),
        kernels=tuple(print_kernel(plan, segment, k) for k in plan.kernels),
        parts=tuple(PartView(name=n, struct=segment.struct, calls=tuple(calls(plan, segment, k))) for n, k in named),
    )
