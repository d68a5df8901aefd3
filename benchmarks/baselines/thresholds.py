"""Sparsifiers that send what lies above a threshold, and ways to find one.

Sampled: Aji & Heafield, EMNLP 2017. Gaussian: Shi et al. 2019, algorithm 1. Bisected: RedSync, Fang et al. 2019,
algorithm 2. Staged: SIDCo, Abdelmoniem et al., MLSys 2021.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist

import torch
from torch import Tensor

from benchmarks.formulas.base import Draws, Memory, Payload


@dataclass(frozen=True, slots=True)
class Above:
    """Sends every element whose magnitude exceeds `rule(gradient)`; no capacity."""

    rule: Callable[[Tensor], Tensor | float]

    def compress(self, gradient: Tensor, memory: Memory, draws: Draws) -> Payload:
        flat = gradient.reshape(-1)
        index = (flat.abs() > self.rule(flat)).nonzero().reshape(-1)
        return {"index": index, "value": flat[index]}

    def decompress(self, payload: Payload, shape: torch.Size, draws: Draws) -> Tensor:
        dense = torch.zeros(shape.numel(), device=payload["value"].device)
        dense[payload["index"]] = payload["value"]
        return dense.reshape(shape)


def sampled(flat: Tensor, ratio: float, sample_ratio: float) -> Tensor:
    """The `ratio`-quantile from above of the magnitudes of a random sample."""
    size = min(len(flat), max(1024, math.ceil(sample_ratio * len(flat))))
    probe = flat[torch.randint(len(flat), (size,), device=flat.device)].abs()
    return torch.topk(probe, max(1, math.ceil(ratio * size)), sorted=False).values.min()


def gaussian(flat: Tensor, ratio: float) -> Tensor:
    """The threshold for normal values, corrected in steps of 2 % until the count is within a quarter of k."""
    wanted = max(1, math.floor(ratio * len(flat)))
    magnitude = flat.abs()
    threshold = flat.mean().abs() + NormalDist().inv_cdf(1 - ratio / 2) * flat.std(correction=0)
    for _ in range(20):
        found = int((magnitude > threshold).sum())
        if 0.75 * wanted <= found <= 1.25 * wanted:
            break
        threshold = threshold / 1.02 if found < wanted else threshold * 1.02
    return threshold


def bisected(flat: Tensor, k: int) -> Tensor:
    """Between mean and maximum of the magnitudes, halved towards a count between k and 2k."""
    magnitude = flat.abs()
    middle, top = magnitude.mean(), magnitude.max()
    low, high = 0.0, 1.0
    threshold = middle
    for _ in range(10):
        threshold = middle + 0.5 * (low + high) * (top - middle)
        found = int((magnitude > threshold).sum())
        if k <= found <= 2 * k:
            break
        low, high = (low, 0.5 * (low + high)) if found < k else (0.5 * (low + high), high)
    return threshold


def staged(flat: Tensor, ratio: float) -> Tensor:
    """Three exponential fits, each to what lies above the last threshold."""
    magnitude = flat.abs()
    share = math.log(math.sqrt(4 * ratio))
    threshold = -magnitude.mean() * math.log(0.25)
    for _ in range(2):
        threshold = threshold - (magnitude[magnitude > threshold].mean() - threshold) * share
    return threshold
