"""A function of the optimised program -> `KernelPlan`: kernels in order, and the memory that they work on.

Where values live is decided in `homes.py`, what has to be saved before it is overwritten in `hazards.py`; here the
steps become named kernels. One sweep is one kernel; a backend may make several launches of it.
"""

from __future__ import annotations

from collections.abc import Iterable

from compll.codegen import ir
from compll.codegen.clashes import apart, record_words, reserved_names
from compll.codegen.hazards import Hazards
from compll.codegen.homes import Homes
from compll.codegen.layout import payload_layout
from compll.codegen.plan import (
    Buffer,
    DecodeAscending,
    EncodeAscending,
    Kernel,
    KernelPlan,
    LoadCount,
    Repeat,
    StoreCount,
)
from compll.codegen.record_sizes import RecordSizes, size_name
from compll.codegen.rewrite import value_names
from compll.codegen.steps import Block, LoopSteps, Names, Step, all_steps, block_of, read, written
from compll.dtypes import NAMED

__all__ = ["partition", "size_name"]

_SINK_PATTERNS = {
    ir.Write: "map", ir.Fold: "reduce", ir.Keep: "filter", ir.Top: "select", ir.Kth: "select", ir.Scan: "scan",
    ir.Put: "scatter",
}  # fmt: skip
_STEP_PATTERNS = {
    ir.Sort: "sort", ir.MatMul: "matmul", ir.Transpose: "transpose", ir.Orthonormalize: "orthonormalize",
    ir.AllReduce: "all_reduce", EncodeAscending: "ascending", DecodeAscending: "ascending", StoreCount: "count",
    LoadCount: "count", LoopSteps: "loop",
}  # fmt: skip


def partition(program: ir.Program, function: ir.Function, gradient_dtype: str) -> KernelPlan:
    """Plan one function for gradients of the named dtype (f32, f16 or bf16)."""
    layout = payload_layout(program)
    names = Names(value_names(function))
    homes = Homes(
        function=function, layout=layout, gradient=program.gradient, gradient_dtype=NAMED[gradient_dtype],
        names=names, reserved=reserved_names(program),
    )  # fmt: skip
    block = homes.settle(block_of(apart(program, function.operations)))
    block = Hazards(homes.of, names).resolve(block, homes.at_start())
    for step in all_steps(block):
        for value in written(step):
            homes.temporary(value)
    kernels = _kernels(block, Names())
    buffers = _used(homes, block)
    sizes = RecordSizes.of(program, buffers, kernels)
    return KernelPlan(
        function=function.name,
        gradient=program.gradient,
        buffers=buffers,
        bindings=tuple(homes.of.items()),
        kernels=kernels,
        sizes=sizes.entries(sizes.sizes),
        numbers=sizes.entries(sizes.numbers),
        parameters=tuple(p for p in program.parameters if p.name not in record_words(program)),
        layout=layout,
    )


def _used(homes: Homes, block: Block) -> tuple[Buffer, ...]:
    """The function's own buffers, and the temporaries that some step touches."""
    touched = {homes.of[v.name] for step in all_steps(block) for v in (*read(step), *written(step))}
    return tuple(b for b in homes.buffers.values() if b.role != "temporary" or b.name in touched)


def _kernels(block: Iterable[Step], names: Names) -> tuple[Kernel, ...]:
    return tuple(_kernel(step, names) for step in block)


def _kernel(step: Step, names: Names) -> Kernel:
    name = names.fresh(_wish(step))
    if isinstance(step, LoopSteps):
        head, body = _kernels(step.head, names), _kernels(step.body, names)
        repeat = Repeat(limit=step.loop.limit, head=head, condition=step.loop.condition, body=body)
        return Kernel(name=name, pattern=_pattern(step), step=repeat)
    return Kernel(name=name, pattern=_pattern(step), step=step)


def _wish(step: Step) -> str:
    """A kernel is called after the result that says most: a selection's or a reduction's before a map's."""
    match step:
        case ir.Sweep(sinks=sinks):
            telling = [sink for sink in sinks if not isinstance(sink, ir.Write)]
            return ir.sink_results(telling[-1] if telling else sinks[0])[0].name
        case EncodeAscending(section=section):
            return f"encode_{section.name}"
        case DecodeAscending(section=section):
            return f"decode_{section.name}"
        case StoreCount(source=source):
            return f"store_{source.name}"
        case LoadCount(result=result):
            return f"load_{result.name}"
        case LoopSteps(loop=loop):
            return "repeat_" + "_".join(carried.parameter.name for carried in loop.carried[:2])
    return written(step)[0].name


def _pattern(step: Step) -> str:
    if not isinstance(step, ir.Sweep):
        return _STEP_PATTERNS[type(step)]
    if not step.shape and all(isinstance(sink, ir.Write) for sink in step.sinks):
        return "scalar"
    found = {_SINK_PATTERNS[type(sink)] for sink in step.sinks}
    return "+".join(pattern for pattern in dict.fromkeys(_SINK_PATTERNS.values()) if pattern in found)
