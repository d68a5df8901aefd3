"""What a plan's values are as tensors while a function runs on a segment: for whoever works between its kernels."""

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
class Values:
    """The float arrays of one segment.

    `addresses` are the record's pointers by name, `environment` values its sizes, `workspace` holds its temporaries.
    """

    plan: KernelPlan
    segment: Segment
    addresses: Mapping[str, int]
    environment: Mapping[str, float]
    workspace: Workspace

    def shape(self, value: ir.Value) -> tuple[int, ...]:
        return tuple(extent(size, self.environment) for size in value.shape)

    def flat(self, value: ir.Value) -> torch.Tensor:
        """The memory of a value, 1-D in its buffer's dtype; shorter than the value where its view is padded."""
        return self._memory(self.plan.buffer_of(value), math.prod(self.shape(value)))

    def _memory(self, buffer: Buffer, numel: int) -> torch.Tensor:
        dtype = _TENSOR_DTYPES.get(buffer.dtype.name)
        if dtype is None or (buffer.section is not None and buffer.section.coding != "raw"):
            raise InternalError(f"function `{self.plan.function}`: `{buffer.name}` outside kernels is no float array")
        if buffer.role == "temporary":
            return self.workspace.at(self.addresses[buffer.name], numel * dtype.itemsize).view(dtype)
        if buffer.section is not None:
            offset = extent(buffer.section.offset, self.environment)
            return self.segment.arrays[payload_of(buffer)][offset : offset + numel * dtype.itemsize].view(dtype)
        return self.segment.arrays[buffer.name].view(-1)
