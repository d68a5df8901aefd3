"""Threshold binary quantisation: Strom, Interspeech'15: +t where g >= t, -t where g <= -t, nothing elsewhere.

Used with error feedback: what exceeds t stays in the residual, too.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from benchmarks.formulas.base import Draws, Memory, Payload


@dataclass(frozen=True, slots=True, kw_only=True)
class ThresholdBinary:
    threshold: float = 0.001

    def compress(self, gradient: Tensor, memory: Memory, draws: Draws) -> Payload:
        threshold = torch.tensor(self.threshold)
        return {"code": (gradient >= threshold).float() - (gradient <= -threshold).float()}

    def decompress(self, payload: Payload, shape: torch.Size, draws: Draws) -> Tensor:
        return (payload["code"] * torch.tensor(self.threshold)).reshape(shape)
