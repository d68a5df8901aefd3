"""Decoders that are one elementwise walk: a merge adds up what several payloads say while positions are at hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from compll.codegen import ir
from compll.codegen.plan import Kernel, KernelPlan

#: What a merge consists of: the first payload of a row, and any other.
MERGED = ("decode", "decode_add")


@dataclass(frozen=True, slots=True)
class Walk:
    """All that a function does: one sweep that writes each element of `out`, from what lies at its own position."""

    kernel: Kernel
    sweep: ir.Sweep
    sink: ir.Write


def walk_of(plan: KernelPlan) -> Walk | None:
    """The walk of a function of MERGED; None where it does more than that, and for other functions."""
    if plan.function not in MERGED or len(plan.kernels) != 1:
        return None
    kernel = plan.kernels[0]
    sweep = kernel.step
    if not isinstance(sweep, ir.Sweep) or not sweep.shape or sweep.count is not None or len(sweep.sinks) > 1:
        return None
    sink = sweep.sinks[0]
    if not isinstance(sink, ir.Write) or plan.buffer_of(sink.result).role != "out":
        return None
    return Walk(kernel, sweep, sink)


def merges_in_one_walk(plans: Mapping[str, KernelPlan]) -> bool:
    """Whether both functions of a merge are walks."""
    return all(walk_of(plans[name]) is not None for name in MERGED)
