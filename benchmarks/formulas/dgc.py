"""Deep Gradient Compression: Lin et al., ICLR'18: momentum correction (3.1), momentum factor masking (3.2), and the
threshold of a sample (appendix C).

    u = m u + g;   v = v + u;   threshold = the ratio-quantile of |v| in a sample;   send v where |v| >= threshold;
    u = v = 0 where sent

As compll defines it: a sample of max(min(n, 1024), ceil(sample_ratio n)) positions with replacement, at most
limit = min(n, k + ceil(k / 4)) elements with k = max(1, ceil(ratio n)), and zeros are never sent. Of more matches the
first `limit` from position (step * limit) mod n are kept.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from benchmarks.formulas.base import Draws, Memory, Payload


@dataclass(frozen=True, slots=True, kw_only=True)
class DeepGradientCompression:
    """`draws["sample"]`: the sampled positions; `draws["step"]`: the step number."""

    ratio: float = 0.001
    sample_ratio: float = 0.01
    momentum: float = 0.9

    def sample_size(self, n: int) -> int:
        return max(min(n, 1024), math.ceil(self.sample_ratio * n))

    def limit(self, n: int) -> int:
        k = max(1, math.ceil(self.ratio * n))
        return min(n, k + math.ceil(0.25 * k))

    def compress(self, gradient: Tensor, memory: Memory, draws: Draws) -> Payload:
        flat = gradient.reshape(-1)
        zeros = torch.zeros_like(flat)
        velocity = self.momentum * memory.get("velocity", zeros) + flat
        pending = memory.get("pending", zeros) + velocity
        probe = pending[draws["sample"]].abs()
        threshold = probe.sort(descending=True).values[math.ceil(self.ratio * len(probe)) - 1]
        matches = ((pending.abs() >= threshold) & (pending != 0)).nonzero().reshape(-1)
        index = first_from(matches, self.limit(len(flat)), int(draws["step"]), len(flat))
        payload = {"index": index, "value": pending[index]}
        memory["velocity"], memory["pending"] = velocity.index_fill(0, index, 0.0), pending.index_fill(0, index, 0.0)
        return payload

    def decompress(self, payload: Payload, shape: torch.Size, draws: Draws) -> Tensor:
        dense = torch.zeros(shape.numel(), device=payload["value"].device)
        dense[payload["index"]] = payload["value"]
        return dense.reshape(shape)


def first_from(matches: Tensor, limit: int, step: int, extent: int) -> Tensor:
    """The first `limit` of the ascending positions, counted cyclically from (step * limit) mod extent, ascending."""
    start = (step * limit) % extent
    rotated = torch.cat([matches[matches >= start], matches[matches < start]])
    return rotated[:limit].sort().values
