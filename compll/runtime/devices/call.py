"""One call of a function of CUDA text while it runs: its records, and its values as tensors between launches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray

from compll.codegen import ir
from compll.runtime.devices.base import Segment
from compll.runtime.devices.launching import Launching
from compll.runtime.devices.matrices import Matrices
from compll.runtime.devices.records import Workspace


@dataclass(frozen=True, kw_only=True)
class Call:
    """`words` are the records of the segments, scratch included, on the host; `workspace` holds their temporaries."""

    launching: Launching
    segments: Sequence[Segment]
    words: NDArray[np.int64]
    workspace: Workspace

    def multiply(self, product: ir.MatMul) -> None:
        """A library call, for every segment."""
        for matrices in self._matrices:
            matrices.multiply(product)

    def tensors(self, value: ir.Value) -> list[torch.Tensor]:
        """The memory of a float array, for every segment; 1-D."""
        return [matrices.flat(value) for matrices in self._matrices]

    @cached_property
    def _matrices(self) -> list[Matrices]:
        names = [field.name for field in self.launching.function.record]
        return [
            Matrices(
                plan=self.launching.plan, segment=segment, addresses=dict(zip(names, record.tolist(), strict=False)),
                environment=self.launching.environment(segment.environment), workspace=self.workspace,
            )
            for segment, record in zip(self.segments, self.words, strict=True)
        ]  # fmt: skip
