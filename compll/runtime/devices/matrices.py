"""Matrix products between generated kernels, left to torch's library.

Shared by the devices that run CUDA text. Products follow torch's setting of matmul precision; programs with products
promise no equal bits anyway.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from compll.codegen import ir
from compll.runtime.devices.values import Values


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrices(Values):
    """The matrices of one segment while a function runs on it."""

    def multiply(self, product: ir.MatMul) -> None:
        """result = left @ right, on the current stream of the segment's device; f32."""
        left, right = self._operand(product.left), self._operand(product.right)
        left = left.T if product.transpose_left else left
        right = right.T if product.transpose_right else right
        target, shape = self.flat(product.result), self.shape(product.result)
        if target.dtype == torch.float32 and target.numel() == math.prod(shape):
            torch.matmul(left, right, out=target.view(shape))
        else:
            target.copy_(torch.matmul(left, right).view(-1)[: target.numel()])

    def _operand(self, value: ir.Value) -> torch.Tensor:
        shape = self.shape(value)
        held = self.flat(value).float()
        if held.numel() < math.prod(shape):  # the last block of a view is padded with zeros
            held = torch.nn.functional.pad(held, (0, math.prod(shape) - held.numel()))
        return held.view(shape)
