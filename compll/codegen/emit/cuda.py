"""Kernel plans to CUDA C++: one file for all functions of a compressor, and the launches that run it.

The text needs NVRTC or nvcc in C++17 with -fmad=false, the headers of include/ and nothing else. What the host must
know (records, scratch, launches) is data: `cuda_function`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import assert_never

from compll.codegen import ir
from compll.codegen.emit.cuda_context import Context, DeviceFunction, Turns
from compll.codegen.emit.cuda_groups import Group, group, print_group
from compll.codegen.emit.cuda_launch import (
    Exchange,
    Launch,
    LaunchStep,
    LibraryCall,
    Phases,
    Scratch,
    Work,
)
from compll.codegen.emit.cuda_memory import Memory
from compll.codegen.emit.cuda_merge import CudaMerge, print_fused, print_phased
from compll.codegen.emit.cuda_rows import print_rows
from compll.codegen.emit.cuda_scalar import is_scalar, print_scalars
from compll.codegen.emit.cuda_steps import (
    print_assignment,
    print_decode_ascending,
    print_encode_ascending,
    print_orthonormalize,
    print_sort,
    print_transpose,
)
from compll.codegen.emit.cuda_sweep import print_flat
from compll.codegen.emit.environment import render
from compll.codegen.emit.expr import storage_ctype
from compll.codegen.emit.names import Names, identifier
from compll.codegen.plan import (
    DecodeAscending,
    EncodeAscending,
    Kernel,
    KernelPlan,
    LoadCount,
    RecordField,
    Repeat,
    StoreCount,
    record_fields,
)
from compll.codegen.walks import MERGED
from compll.dtypes import NAMED
from compll.sizes import Num

INCLUDES = (
    "ascending.cuh", "cast.h", "filter.cuh", "fold.cuh", "math.h", "matrix.cuh", "merge.cuh", "payload.cuh",
    "phases.cuh", "philox.h", "rows.cuh", "scalar.h", "scan.cuh", "select.cuh", "select_rows.cuh", "sort.cuh",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class CudaFunction:
    """One function of a compressor, printed.

    `segment` is the name of the record's struct; its fields are those of record_fields, then a pointer for each
    scratch array, 8 bytes each. `steps` are run in order on one stream.
    """

    name: str
    segment: str
    record: tuple[RecordField, ...]
    scratch: tuple[Scratch, ...]
    kernels: tuple[str, ...]
    steps: tuple[LaunchStep, ...]

    @property
    def fields(self) -> tuple[str, ...]:
        """The members of the record, as C text."""
        fields = [_member(f) for f in self.record]
        return (*fields, *(f"{scratch.ctype}* {scratch.name};" for scratch in self.scratch))


@dataclass(frozen=True, slots=True, kw_only=True)
class _FileView:
    name: str
    wide: bool
    includes: Sequence[str]
    functions: Sequence[CudaFunction]
    merge: CudaMerge | None


def emit(name: str, plans: tuple[KernelPlan, ...], wide: bool = False) -> str:
    """The text of all functions of the compressor `name`. `wide`: positions of 64 bits, for 2^31 elements or more."""
    functions = [cuda_function(plan) for plan in plans]
    merge = cuda_merge({plan.function: plan for plan in plans})
    view = _FileView(name=name, wide=wide, includes=INCLUDES, functions=functions, merge=merge)
    return render("cuda/file.cu.j2", view)


def launches(plan: KernelPlan) -> tuple[tuple[str, ...], ...]:
    """What one call of the function launches, in order: the names of each launch's phases, and `matmul` for a product
    by the platform's library, which is a launch for every segment."""
    names: list[tuple[str, ...]] = []
    for step in cuda_function(plan).steps:
        match step:
            case Launch(function=function):
                names.append((function,))
            case Phases(phases=phases):
                names.append(phases)
            case LibraryCall():
                names.append(("matmul",))
            case Exchange():
                pass
            case _:
                assert_never(step)
    return tuple(names)


def merge_launches(plans: Mapping[str, KernelPlan], payloads: int) -> tuple[tuple[str, ...], ...]:
    """The same for a merge of so many payloads of each gradient."""
    merge = cuda_merge(plans)
    if merge is not None:
        return ((merge.launch.function,),)
    first, other = (launches(plans[name]) for name in MERGED)
    return (*first, *other * (payloads - 1), ("divide",))


def cuda_function(plan: KernelPlan) -> CudaFunction:
    """The kernels of one function and how the host runs them."""
    context = Context(plan=plan, memory=Memory(plan))
    grouped = group(plan, list(_steps(context, plan.kernels)))
    groups = list(dict.fromkeys(step for step in grouped if isinstance(step, Group)))
    functions = {f.name: f.text for each in groups for f in each.functions}
    names = Names(functions)
    printed = {each: print_group(context, each, names) for each in groups}
    return CudaFunction(
        name=plan.function, segment=context.segment, record=record_fields(plan), scratch=tuple(context.scratch),
        kernels=(*functions.values(), *(text for text, _ in printed.values())),
        steps=tuple(printed[step][1] if isinstance(step, Group) else step for step in grouped),
    )  # fmt: skip


def cuda_merge(plans: Mapping[str, KernelPlan]) -> CudaMerge | None:
    """The launch that merges payloads; None for a program without payload, or whose decode needs a library."""
    if not plans.keys() >= set(MERGED):
        return None
    first, other = (Context(plan=plans[name], memory=Memory(plans[name])) for name in MERGED)
    fused = print_fused(first)
    if fused is not None:
        return fused
    decode, decode_add = (list(_steps(context, context.plan.kernels)) for context in (first, other))
    return print_phased(first, decode, other, decode_add)


def _member(field: RecordField) -> str:
    name = identifier(field.name)
    match field.kind:
        case "pointer":
            return f"{storage_ctype(NAMED[field.ctype]) if field.ctype in NAMED else _wide(field.ctype)}* {name};"
        case "size":
            return f"{'double' if field.ctype == 'f64' else 'int64_t'} {name};"
        case "key":
            return f"uint64_t {name};"
        case "parameter":
            ctype = storage_ctype(NAMED[field.ctype])
            return f"alignas(8) {'bool' if field.ctype == 'bool' else ctype} {name};"


def _wide(ctype: str) -> str:
    return {"f64": "double", "u64": "uint64_t"}[ctype]


_Printed = DeviceFunction | Turns | LibraryCall | Exchange


def _steps(context: Context, kernels: Sequence[Kernel]) -> Iterator[_Printed]:
    """Everything that runs for these kernels, in order; scalar neighbours as one function."""
    at = 0
    while at < len(kernels):
        end = at
        while end < len(kernels) and is_scalar(kernels[end].step):
            end += 1
        if end > at:
            yield print_scalars(context, kernels[at:end])
            at = end
        else:
            yield from _step(context, kernels[at])
            at += 1


def _step(context: Context, kernel: Kernel) -> Iterator[_Printed]:
    name = kernel.name
    match kernel.step:
        case ir.Sweep() as sweep:
            by_rows = any(getattr(sink, "per_row", False) for sink in sweep.sinks)
            yield from (print_rows if by_rows else print_flat)(context, name, sweep)
        case ir.Sort() as step:
            yield from print_sort(context, name, step)
        case ir.Transpose() as step:
            yield from print_transpose(context, name, step)
        case ir.Orthonormalize() as step:
            yield from print_orthonormalize(context, name, step)
        case ir.MatMul() as step:
            yield LibraryCall(step=step)
        case ir.AllReduce() as step:
            yield from print_assignment(context, name, step.result, step.source)
            yield Exchange(step=step)
        case EncodeAscending() as step:
            yield from print_encode_ascending(context, name, step)
        case DecodeAscending() as step:
            yield from print_decode_ascending(context, name, step)
        case Repeat() as step:
            yield from _repeat(context, name, step)
        case StoreCount() | LoadCount():
            yield print_scalars(context, (kernel,))
        case _:
            assert_never(kernel.step)


def _repeat(context: Context, name: str, step: Repeat) -> Iterator[_Printed]:
    """A loop without the host: every turn runs, and segments that have left the loop skip theirs."""
    outer = context.active
    flag = f"{context.add_scratch(f'{name}_active', 'uint32_t', 4, Num(1))}[0]"
    first = ["if (threadIdx.x > 0) return;", f"{flag} = {outer or '1'};"]
    context.active = ""
    yield context.call(name, "begin", first, work=Work(None), block=32)
    context.active = flag
    head = list(_steps(context, step.head))
    test = ["if (threadIdx.x > 0) return;", f"if (!{context.memory.load(step.condition, '0')}) {flag} = 0;"]
    head.append(context.call(name, "test", test, work=Work(None), block=32))
    body = list(_steps(context, step.body))
    context.active = outer
    turn = [*head, *body]
    inside = tuple(step for step in turn if isinstance(step, (DeviceFunction, Turns)))
    if len(inside) == len(turn):
        yield Turns(count=step.limit, steps=inside, active=flag, decided=len(head))
    else:
        yield from turn * step.limit
