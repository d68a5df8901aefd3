"""From generated CUDA to a sequence of launches over a batch: records with scratch, tiles, grid sizes.

Shared by the devices that run CUDA text; where memory lies and how a kernel is started is theirs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from compll.codegen.emit.cuda import CudaFunction, cuda_function
from compll.codegen.emit.cuda_launch import Launch
from compll.codegen.interpret import size_environment
from compll.codegen.ir import Program
from compll.codegen.plan import KernelPlan
from compll.runtime.devices.base import Segment
from compll.sizes import Size, extent

ALIGNMENT = 256  # of scratch arrays

Environment = Mapping[str, float]
Work = tuple[Size | None, int]


@dataclass
class Launching:
    """What a function needs to run on batches; everything that depends on shapes only is worked out once."""

    program: Program
    plan: KernelPlan
    function: CudaFunction = field(init=False)
    _environments: dict[tuple[float, ...], Environment] = field(default_factory=dict)
    _scratch: dict[tuple[float, ...], tuple[NDArray[np.int64], int]] = field(default_factory=dict)
    _tiles: dict[tuple[object, ...], NDArray[np.uint32]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.function = cuda_function(self.plan)

    def scratch_bytes(self, segments: Sequence[Segment]) -> int:
        """The zeroed memory that a batch needs."""
        return sum(self._scratch_of(segment.environment)[1] for segment in segments)

    def scratch_table(self, segments: Sequence[Segment], address: int) -> NDArray[np.int64]:
        """The scratch pointers of each segment, in memory of scratch_bytes from `address` on."""
        rows = []
        for segment in segments:
            offsets, nbytes = self._scratch_of(segment.environment)
            rows.append(offsets + address)
            address += nbytes
        return np.stack(rows)

    def tiles(self, launch: Launch, segments: Sequence[Segment]) -> NDArray[np.uint32]:
        """The tiles of a launch, u32 [tiles, 4]: segment, index, count, 0."""
        keys = tuple(tuple(segment.environment.values()) for segment in segments)
        key = (launch.work, launch.per_tile, keys)
        if key not in self._tiles:
            counts = [self._tile_count(launch, segment.environment) for segment in segments]
            self._tiles[key] = _tile_table(counts)
        return self._tiles[key]

    def _tile_count(self, launch: Launch, environment: Environment) -> int:
        if launch.work is None:
            return 1
        return max(1, -(-extent(launch.work, self.environment(environment)) // launch.per_tile))

    def environment(self, environment: Environment) -> Environment:
        key = tuple(environment.values())
        if key not in self._environments:
            self._environments[key] = size_environment(self.program, environment)
        return self._environments[key]

    def _scratch_of(self, environment: Environment) -> tuple[NDArray[np.int64], int]:
        key = tuple(environment.values())
        if key not in self._scratch:
            sizes = self.environment(environment)
            offsets, end = [], 0
            for array in self.function.scratch:
                offsets.append(end)
                end += math.ceil(extent(array.count, sizes) * array.element_bytes / ALIGNMENT) * ALIGNMENT
            self._scratch[key] = np.array(offsets, np.int64), end
        return self._scratch[key]


def _tile_table(counts: Sequence[int]) -> NDArray[np.uint32]:
    table = np.zeros((sum(counts), 4), np.uint32)
    table[:, 0] = np.repeat(np.arange(len(counts)), counts)
    table[:, 1] = np.concatenate([np.arange(count) for count in counts])
    table[:, 2] = np.repeat(np.array(counts), counts)
    return table
