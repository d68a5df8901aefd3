"""What is not sent is kept: g + residual_old == decode(payload) + residual_new (docs/numerics.md, feedback)."""

from __future__ import annotations

import torch
from torch import Tensor

from compll.battery.inputs import FEW_SHAPES, Shape, finite_gradients, heavy_tailed, non_finite_gradients, numel
from compll.battery.law import Subject, Violation, need

ULPS = 2
STEPS = 4


def feedback(subject: Subject) -> str:
    """Within 2 units in the last place of max(|acc|, |decoded|) over several steps; exact where an element is sent as
    it is or not at all."""
    worst = 0.0
    for shape in subject.accepted((*FEW_SHAPES, (65537,))):
        for name, gradients in _sequences(shape):
            worst = max(worst, _follow(subject, gradients, f"{name} {shape}"))
    return f"largest error {worst:.2g} ulp"


def _sequences(shape: Shape) -> list[tuple[str, list[Tensor]]]:
    changing = [heavy_tailed(shape, seed) for seed in range(STEPS)]
    specials = [(name, [gradient] * STEPS) for name, gradient in finite_gradients(shape)]
    broken = [(name, [changing[0], bad, changing[1]]) for name, bad in non_finite_gradients(shape)]
    return [("changing", changing), *(specials if numel(shape) < 10_000 else ()), *(broken if numel(shape) else ())]


def _follow(subject: Subject, gradients: list[Tensor], place: str) -> float:
    worst, state = 0.0, None
    residual = torch.zeros(gradients[0].shape)
    for step, gradient in enumerate(gradients):
        payload, state = subject.encode(gradient, state)
        if state.residual is None:
            raise Violation(f"{place}: the state has no residual")
        decoded = subject.decoded(payload, gradient)
        total = gradient + residual
        total = torch.where(torch.isfinite(total), total, residual)
        residual = state.residual.cpu().clone()
        unit = ulp(torch.maximum(total.abs(), decoded.abs()))
        error = (residual - (total - decoded)).abs() / unit
        error_here = float(error.nan_to_num(nan=float("inf")).max()) if error.numel() else 0.0
        need(error_here <= ULPS, f"{place}, step {step}: sent and kept miss the sum by {error_here:.3g} ulp")
        exact = (decoded == 0) | (decoded == total)
        need(bool((error[exact] == 0).all()), f"{place}, step {step}: an element sent whole or not at all is not exact")
        worst = max(worst, error_here)
    return worst


def ulp(magnitude: Tensor) -> Tensor:
    """The distance to the next larger f32."""
    return torch.nextafter(magnitude, torch.tensor(float("inf"))) - magnitude
