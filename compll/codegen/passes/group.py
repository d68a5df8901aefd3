"""The sinks of one sweep to be: which may share it, and at which stage it runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from compll.codegen import ir
from compll.codegen.passes.definition import Definition, Shape
from compll.codegen.passes.graph import Root

Mode = Literal["any", "flat", "rows"]
"""How a sweep over a matrix runs: a fold of all elements needs `flat`, a result for each row `rows`."""


@dataclass(eq=False, kw_only=True)
class Group:
    """The sinks of one sweep, or one other operation."""

    stage: int
    shape: Shape
    count: str | None
    mode: Mode = "any"
    roots: list[Root] = field(default_factory=list)
    written: list[Definition] = field(default_factory=list)

    @property
    def order(self) -> int:
        return min([root.order for root in self.roots] + [definition.order for definition in self.written])

    @property
    def is_sweep(self) -> bool:
        return all(root.sink is not None for root in self.roots)

    def takes(self, shape: Shape, count: str | None, mode: Mode) -> bool:
        """Whether a sink over this space and of this mode may join."""
        same = self.is_sweep and (self.shape, self.count) == (shape, count)
        return same and (mode == self.mode or "any" in (mode, self.mode))

    def join(self, other: Group) -> None:
        self.roots += other.roots
        self.mode = other.mode if self.mode == "any" else self.mode


def mode_of(sink: ir.Sink | None) -> Mode:
    """How a sweep has to run for a sink."""
    match sink:
        case ir.Fold(per_row=True) | ir.Top(per_row=True) | ir.Kth(per_row=True) | ir.Scan(per_row=True):
            return "rows"
        case ir.Fold() | ir.Top() | ir.Kth() | ir.Scan() | ir.Keep():
            return "flat"
    return "any"
