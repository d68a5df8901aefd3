"""Sizes and the way to bytes and back."""

from __future__ import annotations

import torch

from compll.battery.inputs import SHAPES, normal, numel
from compll.battery.law import KEY, Subject, first_difference, need, refusal, same_bits


def size(subject: Subject) -> str:
    """A payload is as long as the formula says, whatever the data; without elements it is empty."""
    shapes = list(subject.accepted(SHAPES))
    need(bool(shapes), f"no shape is accepted: {refusal(subject.compressor, SHAPES[-1])}")
    for shape in shapes:
        expected = subject.compressor.payload_bytes(shape, torch.float32)
        for gradient in (normal(shape), torch.zeros(shape), normal(shape).clamp(min=1.5)):
            payload, _ = subject.encode(gradient)
            found = (payload.nbytes, payload.buffer.numel(), payload.buffer.dtype)
            need(found == (expected, expected, torch.uint8), f"{shape}: needs {expected} bytes of uint8, got {found}")
        need(numel(shape) > 0 or expected == 0, f"{shape}: no elements need 0 bytes, got {expected}")
    refused = len(SHAPES) - len(shapes)
    return f"{len(shapes)} shapes" + (f", {refused} refused by the program" if refused else "")


def round_trip(subject: Subject) -> str:
    """Decoding gives shape and dtype of the gradient, and the same from a copy of the bytes as from the payload."""
    shapes = list(subject.accepted(SHAPES))
    for shape in shapes:
        gradient = subject.on_device(normal(shape))
        payload, _ = subject.encode(gradient)
        out = subject.compressor.decode(payload, like=gradient)
        need(out.shape == gradient.shape and out.dtype == gradient.dtype, f"{shape}: got {out.dtype}{tuple(out.shape)}")
        received = subject.compressor.payload(payload.buffer.clone(), like=gradient, key=KEY)
        again = subject.compressor.decode(received, like=gradient)
        if not same_bits(out, again):
            need(False, f"{shape}: payload and a copy of its bytes decode differently {first_difference(out, again)}")
        need(bool(torch.isfinite(out).all()), f"{shape}: a finite gradient decodes to values that are not finite")
    return f"{len(shapes)} shapes"
