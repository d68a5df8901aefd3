"""TernGrad: Wen et al., NIPS'17, equations 1-3 and gradient clipping (section 4.2): three levels, stochastic rounding.

    s = max |g|, or min(clip * std(g), max |g|) with clipping;   code = sign(g) * b,  P(b = 1) = |g| / s
    decoded = s * code

`clip` is in standard deviations (the paper's c = 2.5; inf: unclipped, and then unbiased).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from benchmarks.formulas.base import Draws, Memory, Payload


@dataclass(frozen=True, slots=True, kw_only=True)
class TernGrad:
    """`draws["uniform"]`: one number in [0, 1) for every element. Codes are 0, 1, 2 for -1, 0, +1."""

    clip: float = 2.5

    def compress(self, gradient: Tensor, memory: Memory, draws: Draws) -> Payload:
        flat = gradient.reshape(-1)
        scale = flat.abs().max()
        deviation = flat.double().std(correction=0).float()
        if math.isfinite(self.clip) and deviation > 0:
            scale = torch.minimum(scale, self.clip * deviation)
        step = (draws["uniform"] < flat.abs() / scale).long() * flat.sign().long()
        return {"scale": scale, "code": step + 1}

    def decompress(self, payload: Payload, shape: torch.Size, draws: Draws) -> Tensor:
        return ((payload["code"].float() - 1.0) * payload["scale"]).reshape(shape)
