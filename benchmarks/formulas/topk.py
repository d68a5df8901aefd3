"""Top-k sparsification: Aji & Heafield, Sparse Communication for Distributed Gradient Descent, EMNLP'17, algorithm 1.

The k = max(1, floor(ratio * n)) elements of largest magnitude are sent with their positions; used with error feedback.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from benchmarks.formulas.base import Draws, Memory, Payload, largest


@dataclass(frozen=True, slots=True, kw_only=True)
class TopK:
    ratio: float = 0.01

    def compress(self, gradient: Tensor, memory: Memory, draws: Draws) -> Payload:
        flat = gradient.reshape(-1)
        index = largest(flat.abs(), max(1, math.floor(self.ratio * flat.numel())))
        return {"index": index, "value": flat[index]}

    def decompress(self, payload: Payload, shape: torch.Size, draws: Draws) -> Tensor:
        dense = torch.zeros(shape.numel(), device=payload["value"].device)
        dense[payload["index"]] = payload["value"]
        return dense.reshape(shape)
