"""Payloads that add (trait linear): their typed sections, and sums of them without decoding.

A program whose draws are shared would be compressed by the same draws again if its sum were encoded anew; adding what
is encoded already has no second loss.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from compll.runtime.compressor import Compressor
from compll.runtime.rounding import divide, round_into


def why_not_added(compressor: Compressor) -> str:
    """Why payloads of this program cannot be added as they are; empty if they can."""
    if "linear" not in compressor.traits:
        return f"`{compressor.name}` does not declare `trait linear`"
    for field in compressor.at_any_shape.fields:
        if field.count_of:
            return f"`{compressor.name}` has a bounded field"
        if field.dtype.kind != "float":
            return f"field `{field.name}` of `{compressor.name}` is no float"
    return ""


def typed_sections(
    compressor: Compressor, shape: torch.Size, dtype: torch.dtype, payload: torch.Tensor
) -> Iterator[torch.Tensor]:
    """The sections of a payload of a gradient of this shape and dtype, as views of their element types."""
    for section in compressor.sections(shape, dtype):
        if section.dtype is not None:
            yield payload[section.offset : section.offset + section.nbytes].view(section.dtype)


def add_payloads(
    compressor: Compressor, shape: torch.Size, dtype: torch.dtype, payloads: Sequence[torch.Tensor], out: torch.Tensor,
    *, divisor: int = 1,
) -> None:  # fmt: skip
    """The sum in the order given, in f32, divided and rounded once."""
    rows = [typed_sections(compressor, shape, dtype, payload) for payload in payloads]
    for target, *sections in zip(typed_sections(compressor, shape, dtype, out), *rows, strict=True):
        total = torch.zeros_like(target, dtype=torch.float32)
        for section in sections:
            total.add_(section)
        divide([total], [divisor])
        round_into(total, target)
