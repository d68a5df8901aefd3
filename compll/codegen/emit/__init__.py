"""Kernel plans to source text, by target."""

from __future__ import annotations

from collections.abc import Callable

from compll.codegen.emit import cpu, cuda
from compll.codegen.plan import KernelPlan

_EMITTERS: dict[str, Callable[[str, tuple[KernelPlan, ...]], str]] = {
    "cpu": cpu.emit,
    "cuda": cuda.emit,
}


def emit_source(name: str, plans: tuple[KernelPlan, ...], target: str) -> str:
    """One file of text with every function of the compressor `name`; `target` is a key of the table above."""
    return _EMITTERS[target](name, plans)
