"""Gradients with special values."""

from __future__ import annotations

import torch
from torch import Tensor

from compll.battery.inputs import FEW_SHAPES, finite_gradients, non_finite_gradients, numel
from compll.battery.law import Subject, Violation, need


def special_values(subject: Subject) -> str:
    """Every finite gradient decodes to finite values, at the first step and at the next ones."""
    tried = 0
    for shape in subject.accepted(FEW_SHAPES):
        for name, gradient in finite_gradients(shape):
            state = None
            for step in range(3):
                payload, state = subject.encode(gradient, state)
                place = f"{name} {shape}, step {step}"
                need(payload.finite, f"{place}: `finite` needs to be true")
                _need_finite(subject.decoded(payload, gradient), f"{place}: decodes to")
            tried += 1
    return f"{tried} gradients"


def non_finite(subject: Subject) -> str:
    """A gradient with inf or NaN clears `finite`; its elements count as absent, so that what is decoded and kept stays
    finite."""
    tried = 0
    for shape in subject.accepted(FEW_SHAPES):
        for name, gradient in non_finite_gradients(shape) if numel(shape) else ():
            payload, state = subject.encode(gradient)
            place = f"{name} {shape}"
            need(not payload.finite, f"{place}: `finite` needs to be false")
            _need_finite(subject.decoded(payload, gradient), f"{place}: decodes to")
            for what, tensor in state.tensors():
                _need_finite(tensor, f"{place}: {what} holds")
            tried += 1
    return f"{tried} gradients"


def _need_finite(tensor: Tensor, place: str) -> None:
    wrong = (~torch.isfinite(tensor.reshape(-1))).nonzero()
    if len(wrong):
        position = int(wrong[0])
        raise Violation(f"{place} {tensor.reshape(-1)[position].item()} at {position}")
