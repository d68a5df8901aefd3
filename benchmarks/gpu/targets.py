"""What encoding may cost on a GPU, in copies of as many f32 elements: the floor that bytes set, and what to reach.

A target is met where the median is at most as much. They hold for n >= 2^26.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Target:
    """In copies: floor and target, without and with feedback; None where there is none."""

    plain: tuple[float, float] | None
    feedback: tuple[float, float] | None

    def of(self, feedback: bool) -> tuple[float, float] | None:
        return self.feedback if feedback else self.plain


TARGETS: Mapping[str, Target] = {
    "threshold": Target((0.5, 0.62), (1.5, 1.75)),
    "graddrop": Target((0.5, 0.62), (1.5, 1.75)),
    "topk": Target((0.5, 0.75), (1.5, 1.9)),
    "dgc": Target((2.5, 2.9), None),  # momentum and masking, no declared feedback
    "adtopk": Target((0.5, 1.0), (1.5, 2.2)),
    "gaussiank": Target((1.0, 1.2), (2.0, 2.3)),
    "sidco": Target((1.0, 1.2), (2.0, 2.3)),
    "randomk": Target(None, (1.5, 1.65)),
    "onebit": Target((0.52, 0.58), (1.52, 1.7)),
    "efsignsgd": Target((0.52, 0.58), (1.52, 1.7)),
    "tbq": Target(None, (1.53, 1.7)),
    "terngrad": Target((1.03, 1.2), (2.03, 2.4)),
    "qsgd": Target((0.57, 0.75), (1.57, 1.85)),  # stochastic
    "powersgd": Target((1.5, 2.0), (3.5, 4.5)),
}

#: How many times faster than a peer of the same run, by program, feedback and the peer's name in `compll bench`.
SPEEDUPS: Mapping[tuple[str, bool, str], float] = {
    ("topk", True, "plain torch"): 5.0,
    ("topk", False, "torch.topk alone"): 6.0,
}
