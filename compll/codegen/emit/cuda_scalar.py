"""Steps of a few scalars: sweeps of rank 0, counts in the payload. Neighbours share one launch, in which one thread
serves a segment."""

from __future__ import annotations

from collections.abc import Sequence

from compll.codegen import ir
from compll.codegen.emit.cuda_context import Context, DeviceFunction
from compll.codegen.emit.cuda_launch import Work
from compll.codegen.emit.cuda_spelling import RESERVED, CudaSpelling
from compll.codegen.emit.expr import body_lines
from compll.codegen.emit.names import Names
from compll.codegen.plan import Kernel, LoadCount, Step, StoreCount

WARP = 32


def is_scalar(step: Step) -> bool:
    """Whether a step belongs here."""
    if isinstance(step, ir.Sweep):
        return not step.shape and all(isinstance(sink, ir.Write) for sink in step.sinks)
    return isinstance(step, (LoadCount, StoreCount))


def print_scalars(context: Context, kernels: Sequence[Kernel], after: Sequence[str] = ()) -> DeviceFunction:
    """One launch for consecutive scalar kernels, in order, and then the statements `after`."""
    body: list[str] = ["if (threadIdx.x > 0) return;"]
    for kernel in kernels:
        block = _lines(context, kernel.step)
        body += block if len(block) == 1 else ["{", *(f"    {line}" for line in block), "}"]
    return context.call(kernels[0].name, "", [*body, *after], work=Work(None), block=WARP)


def _lines(context: Context, step: Step) -> list[str]:
    memory = context.memory
    match step:
        case StoreCount(source=source, offset=offset):
            return [f"compll::store_count(s.payload, {offset}, {memory.load(source, '0')});"]
        case LoadCount(result=result, offset=offset, limit=limit):
            count = f"compll::load_count(s.payload, {offset}, {memory.index(limit)})"
            return [memory.store(result, "0", count)]
        case _:
            assert isinstance(step, ir.Sweep)
            return _sweep(context, step)


def _sweep(context: Context, sweep: ir.Sweep) -> list[str]:
    spelling = CudaSpelling(memory=context.memory, shape=())
    lines = body_lines(sweep.body, spelling, Names(RESERVED))
    stores = []
    for sink in sweep.sinks:
        assert isinstance(sink, ir.Write)
        stores.append(context.memory.store(sink.result, "0", lines[sink.value].name))
    comment = [f"// {line.strip()}" for line in sweep.origin.splitlines() if line.strip()]
    return [*comment, *spelling.generators.values(), *(line.declaration for line in lines.values()), *stores]
