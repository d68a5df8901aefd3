"""Narrow gradients, memory formats, and decoding into a tensor that is there."""

from __future__ import annotations

import torch

from compll.battery.inputs import FEW_SHAPES, normal
from compll.battery.law import Subject, first_difference, need, same_bits


def dtypes(subject: Subject) -> str:
    """An f16 or bf16 gradient is widened exactly and computed in f32; its result is rounded once."""
    for dtype in (torch.float16, torch.bfloat16):
        for shape in subject.accepted(FEW_SHAPES):
            narrow = normal(shape).to(dtype)
            payload, _ = subject.encode(narrow)
            wide, _ = subject.encode(narrow.float())
            if not same_bits(payload.buffer, wide.buffer):
                difference = first_difference(payload.buffer, wide.buffer)
                need(False, f"{dtype} {shape}: bytes differ from those of the widened gradient {difference}")
            out = subject.decoded(payload, narrow)
            rounded = subject.decoded(wide, narrow.float()).to(dtype)
            need(out.dtype == dtype, f"{dtype} {shape}: decodes to {out.dtype}")
            need(same_bits(out, rounded), f"{dtype} {shape}: the result is not the f32 result rounded once")
    return "f16 and bf16 as f32"


def memory_format(subject: Subject) -> str:
    """A channels-last or strided gradient gives the bytes of the same numbers in logical order."""
    images = normal((6, 5, 4, 3))
    for name, view in (
        ("channels last", images.contiguous(memory_format=torch.channels_last)),
        ("transposed", images.permute(3, 2, 1, 0)),
        ("every second", normal((34, 7))[::2]),
    ):
        for _ in subject.accepted([tuple(view.shape)]):
            payload, _ = subject.encode(view)
            plain, _ = subject.encode(view.contiguous())
            need(same_bits(payload.buffer, plain.buffer), f"{name}: bytes differ from those in logical order")
            out = torch.empty_like(subject.on_device(view))
            subject.compressor.decode(payload, like=subject.on_device(view), out=out)
            need(torch.equal(out.cpu(), subject.decoded(plain, view.contiguous())), f"{name}: `out` is filled wrongly")
    return "logical order"


def accumulation(subject: Subject) -> str:
    """decode(add=True) adds what decode gives, with one rounding."""
    for shape in subject.accepted(FEW_SHAPES):
        gradient = subject.on_device(normal(shape))
        payload, _ = subject.encode(gradient)
        base = subject.on_device(normal(shape, seed=7))
        expected = base + subject.compressor.decode(payload, like=gradient)
        out = base.clone()
        subject.compressor.decode(payload, like=gradient, out=out, add=True)
        if not torch.equal(out, expected):
            need(False, f"{shape}: needs out + decode(payload), differs {first_difference(out, expected)}")
    return "out + decode(payload)"
