"""Matrix products between generated kernels, left to torch's library: what a plan's values are as tensors.

Shared by the devices that run CUDA text. Products follow torch's setting of matmul precision; programs with products
promise no equal bits anyway.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch

from compll.codegen import ir
from compll.codegen.plan import Buffer, KernelPlan, payload_of
from compll.diagnostics import InternalError
from compll.runtime.devices.base import Segment
from compll.runtime.devices.records import Workspace
from compll.sizes import extent

_TENSOR_DTYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrices:
    """The matrices of one segment while a function runs on it.

    `addresses` are the record's pointers by name, `environment` values its sizes, `workspace` holds its temporaries.
    """

    plan: KernelPlan
    segment: Segment
    addresses: Mapping[str, int]
    environment: Mapping[str, float]
    workspace: Workspace

    def multiply(self, product: ir.MatMul) -> None:
        """result = left @ right, on the current stream of the segment's device; f32."""
        left, right = self._operand(product.left), self._operand(product.right)
        left = left.T if product.transpose_left else left
        right = right.T if product.transpose_right else right
        buffer, shape = self.plan.buffer_of(product.result), self._shape(product.result)
        target = self._memory(buffer, math.prod(shape))
        if target.dtype == torch.float32 and target.numel() == math.prod(shape):
            torch.matmul(left, right, out=target.view(shape))
        else:
            target.copy_(torch.matmul(left, right).view(-1)[: target.numel()])

    def _operand(self, value: ir.Value) -> torch.Tensor:
        shape = self._shape(value)
        held = self._memory(self.plan.buffer_of(value), math.prod(shape)).float()
        if held.numel() < math.prod(shape):  # the last block of a view is padded with zeros
            held = torch.nn.functional.pad(held, (0, math.prod(shape) - held.numel()))
        return held.view(shape)

    def _memory(self, buffer: Buffer, numel: int) -> torch.Tensor:
        """A buffer's elements, flat; fewer than `numel` where the view is longer than the memory."""
        dtype = _TENSOR_DTYPES.get(buffer.dtype.name)
        if dtype is None or (buffer.section is not None and buffer.section.coding != "raw"):
            raise InternalError(f"function `{self.plan.function}`: `{buffer.name}` in a product is no float array")
        if buffer.role == "temporary":
            return self.workspace.at(self.addresses[buffer.name], numel * dtype.itemsize).view(dtype)
        if buffer.section is not None:
            offset = extent(buffer.section.offset, self.environment)
            return self.segment.arrays[payload_of(buffer)][offset : offset + numel * dtype.itemsize].view(dtype)
        return self.segment.arrays[buffer.name].view(-1)

    def _shape(self, value: ir.Value) -> tuple[int, ...]:
        return tuple(extent(size, self.environment) for size in value.shape)
