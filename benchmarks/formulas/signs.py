"""EF-SignSGD: Karimireddy et al., ICML'19, algorithm 2: signs times the mean magnitude, ||g||_1 / n.

One bit cannot say zero: a zero counts as positive. Used with error feedback.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from benchmarks.formulas.base import Draws, Memory, Payload
from benchmarks.formulas.onebit import mean_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Signs:
    def compress(self, gradient: Tensor, memory: Memory, draws: Draws) -> Payload:
        flat = gradient.reshape(-1)
        return {"scale": mean_of(flat.abs()), "positive": flat >= 0}

    def decompress(self, payload: Payload, shape: torch.Size, draws: Draws) -> Tensor:
        return torch.where(payload["positive"], payload["scale"], -payload["scale"]).reshape(shape)
