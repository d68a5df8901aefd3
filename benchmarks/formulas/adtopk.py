"""All-dimension top-k: ADTopk (Zhang et al., HPDC'24): the k = max(1, floor(ratio * cols)) largest of every row.

A tensor of more than two dimensions is its first dimension against all others; every row is sure to be heard. Used with
error feedback.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from benchmarks.formulas.base import Draws, Memory, Payload, largest


@dataclass(frozen=True, slots=True, kw_only=True)
class AllDimensionTopK:
    ratio: float = 0.01

    def compress(self, gradient: Tensor, memory: Memory, draws: Draws) -> Payload:
        matrix = as_matrix(gradient)
        index = largest(matrix.abs(), max(1, math.floor(self.ratio * matrix.shape[1])))
        return {"index": index, "value": matrix.gather(1, index)}

    def decompress(self, payload: Payload, shape: torch.Size, draws: Draws) -> Tensor:
        dense = as_matrix(torch.zeros(shape, device=payload["value"].device))
        return dense.scatter(1, payload["index"], payload["value"]).reshape(shape)


def as_matrix(gradient: Tensor) -> Tensor:
    """[rows, cols]: the first dimension against the product of the others; a vector is one row."""
    return gradient.reshape(1, -1) if gradient.dim() < 2 else gradient.reshape(gradient.shape[0], -1)
