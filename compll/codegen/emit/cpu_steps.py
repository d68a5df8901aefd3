"""The steps that are no sweeps, as calls of the CPU library: sort, matrix operations, sections, counts."""

from __future__ import annotations

from typing import assert_never

from compll.codegen import ir
from compll.codegen.emit.cpu_memory import Memory
from compll.codegen.emit.cpu_sweep import function_name, print_sweep
from compll.codegen.emit.cpu_views import StepView
from compll.codegen.emit.environment import render
from compll.codegen.emit.segment import Segment
from compll.codegen.layout import Section
from compll.codegen.plan import (
    DecodeAscending,
    EncodeAscending,
    Kernel,
    KernelPlan,
    LoadCount,
    Repeat,
    StoreCount,
)
from compll.diagnostics import InternalError
from compll.sizes import Num, Size


def print_kernel(plan: KernelPlan, segment: Segment, kernel: Kernel) -> str:
    """The function of one kernel; of a loop, the functions of its kernels."""
    if isinstance(kernel.step, Repeat):
        inner = (*kernel.step.head, *kernel.step.body)
        return "\n".join(print_kernel(plan, segment, k) for k in inner)
    if isinstance(kernel.step, ir.Sweep):
        return print_sweep(plan, segment, kernel, kernel.step)
    return _Step(plan, segment, kernel).text()


def calls(plan: KernelPlan, segment: Segment, kernels: tuple[Kernel, ...]) -> list[str]:
    """The statements that run kernels in order."""
    lines: list[str] = []
    for kernel in kernels:
        if isinstance(kernel.step, Repeat):
            lines += _loop(plan, segment, kernel.step)
        else:
            lines.append(f"{function_name(plan, kernel)}(segment, threads);")
    return lines


def _loop(plan: KernelPlan, segment: Segment, loop: Repeat) -> list[str]:
    condition = segment.field(plan.buffer_of(loop.condition).name)
    return [
        f"for (int turn = 0; turn < {loop.limit}; turn++) {{",
        *(f"    {line}" for line in calls(plan, segment, loop.head)),
        f"    if (!{condition}[0]) break;",
        *(f"    {line}" for line in calls(plan, segment, loop.body)),
        "}",
    ]


class _Step:
    def __init__(self, plan: KernelPlan, segment: Segment, kernel: Kernel):
        self._plan = plan
        self._segment = segment
        self._kernel = kernel
        written = [v for v in (getattr(kernel.step, "result", None),) if v is not None]
        self._memory = Memory(plan, segment, frozenset(plan.buffer_of(v).name for v in written))

    def text(self) -> str:
        lines = self._lines()
        view = StepView(
            name=function_name(self._plan, self._kernel), struct=self._segment.struct,
            comment=getattr(self._kernel.step, "origin", ""), lines=(*self._memory.declarations, *lines),
        )  # fmt: skip
        return render("cpu/step.cpp.j2", view)

    def _pointer(self, value: ir.Value) -> str:
        return self._memory.pointer(self._memory.buffer(value))

    def _size(self, size: Size) -> str:
        return self._segment.size(size)

    def _lines(self) -> list[str]:
        step = self._kernel.step
        match step:
            case ir.Sort():
                return self._sort(step)
            case ir.MatMul():
                return [self._matmul(step)]
            case ir.Transpose():
                rows, cols = (self._size(s) for s in step.source.shape)
                source, result = self._pointer(step.source), self._pointer(step.result)
                return [f"compll::transpose({source}, {rows}, {cols}, threads, {result});"]
            case ir.Orthonormalize():
                rows, cols = (self._size(s) for s in step.source.shape)
                source, result = self._pointer(step.source), self._pointer(step.result)
                return [f"compll::orthonormalize({source}, {rows}, {cols}, threads, {result});"]
            case ir.AllReduce():
                return self._copy(step.source, step.result)
            case EncodeAscending():
                count = self._count(step.source, step.count)
                source = self._pointer(step.source)
                return [f"compll::encode_ascending({source}, {count}, {self._ascending(step.source, step.section)});"]
            case DecodeAscending():
                count = self._count(step.result, step.count)
                section, result = self._ascending(step.result, step.section), self._pointer(step.result)
                return [f"compll::decode_ascending({section}, {count}, threads, {result});"]
            case StoreCount():
                return [f"compll::store_count({self._memory.scalar(step.source)}, {self._header(step.offset)});"]
            case LoadCount():
                text = f"compll::load_count({self._header(step.offset)}, {self._size(step.limit)})"
                return [self._memory.store(self._memory.buffer(step.result), "0", text)]
            case ir.Sweep() | Repeat():
                raise InternalError(f"kernel `{self._kernel.name}` is no single step")
            case _:
                assert_never(step)

    def _header(self, offset: int) -> str:
        return f"{self._segment.field('payload')} + {offset}"

    def _count(self, value: ir.Value, count: ir.Value | None) -> str:
        k = self._size(value.shape[-1])
        return k if count is None else self._memory.count(count.name, k)

    def _ascending(self, value: ir.Value, section: Section) -> str:
        rows = value.shape[0] if len(value.shape) == 2 else Num(1)
        parts = [rows, value.shape[-1], *(s for s in (section.extent, section.low_bits, section.low_bytes) if s)]
        address = f"{self._segment.field('payload')} + {self._size(section.offset)}"
        return f"compll::Ascending{{{', '.join([address, *(self._size(p) for p in parts)])}}}"

    def _sort(self, sort: ir.Sort) -> list[str]:
        """Of a bounded array the first `count` elements; the rest stays zero."""
        source, result = self._pointer(sort.source), self._pointer(sort.result)
        rows = self._size(sort.source.shape[0]) if len(sort.source.shape) == 2 else "1"
        length = self._memory.length(sort.source)
        descending = "true" if sort.descending else "false"
        lines = [f"compll::sort_rows({source}, {rows}, {length}, {descending}, threads, {result});"]
        if sort.source.count is not None:
            lines.append(f"compll::zero({result}, {length}, {self._size(sort.source.shape[0])}, threads);")
        return lines

    def _matmul(self, product: ir.MatMul) -> str:
        left = _strides(self._size(product.left.shape[1]), product.transpose_left)
        right = _strides(self._size(product.right.shape[1]), product.transpose_right)
        m, n = (self._size(s) for s in product.result.shape)
        inner = self._size(product.left.shape[0 if product.transpose_left else 1])
        operands = f"{self._pointer(product.left)}, {left}, {self._pointer(product.right)}, {right}"
        return f"compll::multiply({operands}, {m}, {inner}, {n}, threads, {self._pointer(product.result)});"

    def _copy(self, source: ir.Value, result: ir.Value) -> list[str]:
        if self._memory.buffer(source).name == self._memory.buffer(result).name:
            return []
        total = self._segment.product(source.shape)
        return [f"compll::copy({self._pointer(source)}, {total}, threads, {self._pointer(result)});"]


def _strides(columns: str, transposed: bool) -> str:
    return f"compll::Strides{{1, {columns}}}" if transposed else f"compll::Strides{{{columns}, 1}}"
