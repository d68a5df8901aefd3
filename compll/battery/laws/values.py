"""Gradients with special values."""

from __future__ import annotations

import torch

from compll.battery.inputs import FEW_SHAPES, finite_gradients, non_finite_gradients, numel
from compll.battery.law import Subject, need


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
                out = subject.decoded(payload, gradient)
                need(bool(torch.isfinite(out).all()), f"{place}: decodes to {_first_bad(out)}")
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
            out = subject.decoded(payload, gradient)
            need(bool(torch.isfinite(out).all()), f"{place}: decodes to {_first_bad(out)}")
            for what, tensor in state.tensors():
                need(bool(torch.isfinite(tensor).all()), f"{place}: {what} holds {_first_bad(tensor)}")
            tried += 1
    return f"{tried} gradients"


def _first_bad(tensor: torch.Tensor) -> str:
    flat = tensor.reshape(-1)
    position = int((~torch.isfinite(flat)).nonzero()[0])
    return f"{flat[position].item()} at {position}"
