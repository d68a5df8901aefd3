"""One program at one shape, and each of its stages as text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields

import torch

from compll.cli.values import Value
from compll.codegen.driver import Compilation
from compll.codegen.layout import PayloadLayout, Section
from compll.codegen.plan import KernelPlan
from compll.codegen.text import print_ir
from compll.dsl import ast
from compll.runtime.load import load
from compll.runtime.program import GRADIENT_DTYPES, Sized

DTYPES = {name: dtype for dtype, name in GRADIENT_DTYPES.items()}


def specialise(name: str, params: Mapping[str, Value], shape: tuple[int, ...], dtype: str = "f32") -> Sized:
    """The program (a name or a path) at a shape: its compilation and sizes. Raises CompllError for a faulty one."""
    return load(name, backend="reference", **params).sized(torch.Size(shape), DTYPES[dtype])


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """`suffix` is the ending of a file that holds the stage."""

    suffix: str
    text: Callable[[Compilation], str]


STAGES: dict[str, Stage] = {
    "ast": Stage(suffix="ast", text=lambda c: "\n".join(tree(c.module)) + "\n"),
    "ir": Stage(suffix="ir", text=lambda c: print_ir(c.program)),
    "opt": Stage(suffix="opt.ir", text=lambda c: print_ir(c.optimised)),
    "plan": Stage(suffix="plan", text=lambda c: "\n".join(plans(c.plans)) + "\n"),
}


def tree(node: ast.Node, label: str = "", depth: int = 0) -> Iterator[str]:
    """The syntax tree, one node a line with its plain attributes and, for an expression, its type."""
    plain, inner = [], []
    for field in fields(node):
        value = getattr(node, field.name)
        if field.name in ("span", "type") or value is None:
            continue
        nodes = list(_nodes(value))
        inner += [(field.name, child) for child in nodes]
        if not nodes and value != ():
            plain.append(f"{field.name}={value}" if not isinstance(value, str) else f"`{value}`")
    kind = getattr(node, "type", None)
    yield "  " * depth + " ".join([f"{label}:" * bool(label), type(node).__name__, *plain]).strip() + _typed(kind)
    for name, child in inner:
        yield from tree(child, name, depth + 1)


def _typed(kind: object) -> str:
    return f" -> {kind}" if kind is not None and not isinstance(kind, ast.Node) else ""


def _nodes(value: object) -> Iterator[ast.Node]:
    if isinstance(value, ast.Node):
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from _nodes(item)


def plans(by_function: Mapping[str, KernelPlan]) -> Iterator[str]:
    """Every function's buffers and kernels."""
    for name, plan in by_function.items():
        yield f"function {name}"
        for buffer in plan.buffers:
            shape = ", ".join(map(str, buffer.shape))
            yield f"  buffer {buffer.name}: {buffer.role} {buffer.dtype}[{shape}]"
        for kernel in plan.kernels:
            yield f"  kernel {kernel.name}: {kernel.pattern}"


def payload_text(layout: PayloadLayout) -> str:
    """The wire format in words: sizes are expressions of shape and parameters, in bytes."""
    lines = [f"header: {layout.header_bytes} bytes, one u32 count for each bounded section"]
    lines += [_section_line(section) for section in layout.sections]
    return "\n".join([*lines, f"in all: {layout.nbytes} bytes"]) + "\n"


def _section_line(section: Section) -> str:
    shape = f"[{', '.join(map(str, section.shape))}]" if section.shape else ""
    words = [f"{section.name}: {section.dtype}{shape}, {section.coding}, at {section.offset}, {section.nbytes} bytes"]
    if section.extent is not None:
        words.append(f"below {section.extent}, low bits {section.low_bits}")
    if section.count_offset is not None:
        words.append(f"count at {section.count_offset}")
    return ", ".join(words)
