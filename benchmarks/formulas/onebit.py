"""1-bit SGD: Seide et al., Interspeech'14, section 3: the sign of every element and two reconstruction values.

An element of at least 0 decodes to the mean of those elements, a negative one to the mean of the negative ones: the
values of least squared error. Used with error feedback.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from benchmarks.formulas.base import Draws, Memory, Payload


@dataclass(frozen=True, slots=True, kw_only=True)
class OneBit:
    def compress(self, gradient: Tensor, memory: Memory, draws: Draws) -> Payload:
        flat = gradient.reshape(-1)
        upper = flat >= 0
        return {"high": mean_of(flat[upper]), "low": mean_of(flat[~upper]), "sign": upper}

    def decompress(self, payload: Payload, shape: torch.Size, draws: Draws) -> Tensor:
        return torch.where(payload["sign"], payload["high"], payload["low"]).reshape(shape)


def mean_of(values: Tensor) -> Tensor:
    """The mean in f32, accumulated in f64; 0 of nothing."""
    return (values.double().sum() / max(1, values.numel())).float()
