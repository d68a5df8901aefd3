"""Top-k by `torch.topk`, unsorted, the quickest way in torch: which of equal elements is taken is left open."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from benchmarks.formulas.adtopk import AllDimensionTopK, as_matrix
from benchmarks.formulas.base import Draws, Memory, Payload
from benchmarks.formulas.topk import TopK


class FastTopK(TopK):
    def compress(self, gradient: Tensor, memory: Memory, draws: Draws) -> Payload:
        flat = gradient.reshape(-1)
        index = torch.topk(flat.abs(), max(1, math.floor(self.ratio * flat.numel())), sorted=False).indices
        return {"index": index, "value": flat[index]}


class FastAllDimensionTopK(AllDimensionTopK):
    def compress(self, gradient: Tensor, memory: Memory, draws: Draws) -> Payload:
        matrix = as_matrix(gradient)
        index = torch.topk(matrix.abs(), max(1, math.floor(self.ratio * matrix.shape[1])), sorted=False).indices
        return {"index": index, "value": matrix.gather(1, index)}
