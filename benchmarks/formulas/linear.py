"""The b-bit min-max quantiser that HiPress (SOSP'21) calls TernGrad: 2^b levels from minimum to maximum, the nearest.

    step = (max - min) / (2^b - 1);   code = floor((g - min) / step + 1/2);   decoded = min + code * step

A constant gradient has step 0 and decodes to its minimum. Used with error feedback.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from benchmarks.formulas.base import Draws, Memory, Payload


@dataclass(frozen=True, slots=True, kw_only=True)
class Linear:
    bits: int = 4

    def compress(self, gradient: Tensor, memory: Memory, draws: Draws) -> Payload:
        flat = gradient.reshape(-1)
        low, top = flat.min(), float((1 << self.bits) - 1)
        step = (flat.max() - low) / top
        code = ((flat - low) / step + 0.5).floor() if step > 0 else torch.zeros_like(flat)
        return {"low": low, "step": step, "code": code.clamp(0.0, top)}

    def decompress(self, payload: Payload, shape: torch.Size, draws: Draws) -> Tensor:
        return (payload["low"] + payload["code"] * payload["step"]).reshape(shape)
