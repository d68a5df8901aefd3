"""PowerSGD: Vogels, Karimireddy, Jaggi, NeurIPS 2019, algorithm 1, with the tensor operations of PyTorch's own hook."""

from __future__ import annotations

import torch
from torch import Tensor

from benchmarks.formulas.adtopk import as_matrix
from benchmarks.formulas.base import Draws, Memory, Payload


class PowerSGD:
    """`memory["q"]`, [columns, rank], is used and replaced."""

    def compress(self, gradient: Tensor, memory: Memory, draws: Draws) -> Payload:
        matrix = as_matrix(gradient)
        left = torch.linalg.qr(matrix @ memory["q"]).Q
        memory["q"] = matrix.T @ left
        return {"left": left, "right": memory["q"]}

    def decompress(self, payload: Payload, shape: torch.Size, draws: Draws) -> Tensor:
        return (payload["left"] @ payload["right"].T).reshape(shape)
