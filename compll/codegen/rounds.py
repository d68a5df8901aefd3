"""Where a function waits for the network: every `all_reduce_mean` ends a round.

What a collective leaves behind is this rank's own value; between two parts of a function somebody may put the mean over
all ranks in its place. Collectives stand outside loops (`verify`), so that all ranks come to the same ones in the same
order.
"""

from __future__ import annotations

from collections.abc import Iterable

from compll.codegen import ir
from compll.codegen.plan import Kernel, KernelPlan


def parts(plan: KernelPlan) -> tuple[tuple[Kernel, ...], ...]:
    """The plan's kernels, cut behind each collective: one part more than there are rounds."""
    found: list[list[Kernel]] = [[]]
    for kernel in plan.kernels:
        found[-1].append(kernel)
        if isinstance(kernel.step, ir.AllReduce):
            found.append([])
    return tuple(tuple(part) for part in found)


def exchanged(steps: Iterable[object]) -> tuple[ir.Value, ...]:
    """What the rounds of a list of operations or steps reduce, in order: f32 arrays."""
    return tuple(step.result for step in steps if isinstance(step, ir.AllReduce))


def exchanged_by(plan: KernelPlan) -> tuple[ir.Value, ...]:
    """What the plan's rounds reduce, in order."""
    return exchanged(kernel.step for kernel in plan.kernels)
