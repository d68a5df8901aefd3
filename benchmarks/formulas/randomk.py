"""Random-k: Stich et al., Sparsified SGD with Memory, NeurIPS'18 (rand_k); Wangni et al. 2018 for the unbiased form.

k = max(1, floor(ratio * n)) positions drawn uniformly without replacement, the same ones on all workers, so that only
values travel. Unbiased (`scale`): values are multiplied by n / k; otherwise used with error feedback.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from benchmarks.formulas.base import Draws, Memory, Payload


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomK:
    """`draws["index"]`: the k shared positions."""

    ratio: float = 0.01
    scale: bool = True

    def count(self, n: int) -> int:
        return max(1, math.floor(self.ratio * n))

    def compress(self, gradient: Tensor, memory: Memory, draws: Draws) -> Payload:
        flat = gradient.reshape(-1)
        gain = torch.tensor(float(len(flat))) / float(self.count(len(flat))) if self.scale else torch.tensor(1.0)
        return {"value": flat[draws["index"]] * gain}

    def decompress(self, payload: Payload, shape: torch.Size, draws: Draws) -> Tensor:
        dense = torch.zeros(shape.numel(), device=payload["value"].device)
        dense[draws["index"]] = payload["value"]
        return dense.reshape(shape)
