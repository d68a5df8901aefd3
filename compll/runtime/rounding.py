"""How a sum ends: divided once, and from f32 to the dtype of a gradient once: to nearest even, finite values saturate,
inf and NaN pass (numerics)."""

from __future__ import annotations

from collections.abc import Sequence

import torch


def divide(sums: Sequence[torch.Tensor], divisors: Sequence[int]) -> None:
    """Divide float tensors in place, all of one divisor together, where no kernel of a program's does.

    On a GPU this divides, whereas `div_` would multiply by the reciprocal: other bits than on a CPU.
    """
    for divisor in dict.fromkeys(divisors):
        if divisor > 1:
            torch._foreach_div_([s for s, d in zip(sums, divisors, strict=True) if d == divisor], divisor)


def round_into(source: torch.Tensor, out: torch.Tensor) -> None:
    """Write the f32 tensor `source` into `out` of equal shape and any float dtype, with one rounding."""
    if out.dtype in (torch.float16, torch.bfloat16):
        largest = torch.finfo(out.dtype).max
        source = torch.where(source.isinf(), source, source.clamp(-largest, largest))
    out.copy_(source)
