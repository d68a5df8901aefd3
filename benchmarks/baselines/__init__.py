"""What `compll bench` compares programs with: each in torch as one writes it there, library calls on whole tensors.

The formulas of `benchmarks/formulas` where their operations are the usual ones; where a formula is exact at the cost of
time (a stable sort, sums in f64), the quicker form. Nothing packs bits: that is in the favour of these baselines.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from benchmarks.baselines.registry import REGISTRY, Draw
from benchmarks.formulas.base import Formula, Memory, with_feedback


@dataclass(frozen=True, slots=True)
class Plain:
    """One formula, with what it draws in every step."""

    formula: Formula
    draw: Draw

    def step(self, gradient: Tensor, memory: Memory, step: int, *, feedback: bool) -> object:
        """Compress one gradient; with feedback, of gradient plus `memory["residual"]`, which is updated."""
        draws = self.draw(gradient, step)
        if feedback:
            return with_feedback(self.formula, gradient, memory, draws)
        return self.formula.compress(gradient, memory, draws)


def plain(name: str, params: Mapping[str, float | int | bool]) -> Plain | None:
    """The baseline of a shipped program with the same parameters, or None where nobody has written one."""
    entry = REGISTRY.get(name)
    return entry and Plain(*entry(params))
