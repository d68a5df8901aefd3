"""PowerSGD: Vogels, Karimireddy, Jaggi, PowerSGD: Practical Low-Rank Gradient Compression, NeurIPS'19.

Algorithm 1 with the error feedback of algorithm 2, of all workers at once: P = mean(M Q), orthonormalised;
Q = mean(M^T P); every worker gets P Q^T, and keeps M - P Q^T. M is the gradient plus what was kept, its first dimension
by the rest; Q is kept for the next step.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from benchmarks.formulas.base import Memory


def low_rank_step(gradients: Sequence[Tensor], memories: Sequence[Memory]) -> Tensor:
    """One step of workers that hold one gradient each; every memory has the same `q`, f32 [cols, rank]."""
    rows = len(gradients[0]) if gradients[0].dim() > 1 else 1
    corrected = [
        (gradient + memory.get("residual", torch.zeros_like(gradient))).reshape(rows, -1)
        for gradient, memory in zip(gradients, memories, strict=True)
    ]
    p = orthonormal(_mean([m @ memory["q"] for m, memory in zip(corrected, memories, strict=True)]))
    q = _mean([m.T @ p for m in corrected])
    result = p @ q.T
    for memory, m, gradient in zip(memories, corrected, gradients, strict=True):
        memory["q"] = q
        memory["residual"] = (m - result).reshape(gradient.shape)
    return result.reshape(gradients[0].shape)


def orthonormal(matrix: Tensor) -> Tensor:
    """Gram-Schmidt over the columns; one that depends on those before it (below 2^-10 of its norm) becomes 0."""
    basis = matrix.double()
    for j in range(basis.shape[1]):
        before = basis[:, j].norm()
        for _ in range(2):
            basis[:, j] -= basis[:, :j] @ (basis[:, :j].T @ basis[:, j])
        after = basis[:, j].norm()
        basis[:, j] = basis[:, j] / after if after > before * 2**-10 else 0.0
    return basis.float()


def _mean(tensors: Sequence[Tensor]) -> Tensor:
    return torch.stack(list(tensors)).mean(dim=0)
