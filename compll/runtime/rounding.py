"""From f32 to the dtype of a gradient, once: to nearest even, finite values saturate, inf and NaN pass (numerics)."""

from __future__ import annotations

import torch


def round_into(source: torch.Tensor, out: torch.Tensor) -> None:
    """Write the f32 tensor `source` into `out` of equal shape and any float dtype, with one rounding."""
    if out.dtype in (torch.float16, torch.bfloat16):
        largest = torch.finfo(out.dtype).max
        source = torch.where(source.isinf(), source, source.clamp(-largest, largest))
    out.copy_(source)
