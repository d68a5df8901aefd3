"""From generated CUDA to a sequence of launches over a batch: records with scratch, tiles, grid sizes.

Shared by the devices that run CUDA text; where memory lies and how a kernel is started is theirs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from compll.codegen.emit.cuda import CudaFunction, cuda_function
from compll.codegen.emit.cuda_launch import Exchange, Launch, LibraryCall, Phases, Work
from compll.codegen.interpret import size_environment
from compll.codegen.ir import Program, Value
from compll.codegen.plan import KernelPlan
from compll.runtime.devices.base import Segment
from compll.runtime.devices.records import first_of_turns
from compll.sizes import extent

ALIGNMENT = 256  # of scratch arrays

Environment = Mapping[str, float]
Kernels = Launch | Phases  # what a device launches

BARRIER_BYTES = 8  # compll::Barrier, zero before the first launch


@dataclass(frozen=True, slots=True)
class Tables:
    """What a launch is given of the batch's shapes, u32 [rows, 4]: the tiles, behind their spans where there are
    several phases. `tiles` are those of the launch, or of its longest phase: so many blocks have work."""

    rows: NDArray[np.uint32]
    tiles: int


@dataclass
class Launching:
    """What a function needs to run on batches; everything that depends on shapes only is worked out once."""

    program: Program
    plan: KernelPlan
    function: CudaFunction = field(init=False)
    _environments: dict[tuple[float, ...], Environment] = field(default_factory=dict)
    _scratch: dict[tuple[float, ...], tuple[NDArray[np.int64], int]] = field(default_factory=dict)
    _tables: dict[tuple[object, ...], Tables] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.function = cuda_function(self.plan)

    def scratch_bytes(self, segments: Sequence[Segment], turns: Sequence[int] = ()) -> int:
        """The zeroed memory that a batch needs; `turns` as in Records.table."""
        return sum(first_of_turns([self._scratch_of(segment.environment)[1] for segment in segments], turns))

    def scratch_table(self, segments: Sequence[Segment], address: int, turns: Sequence[int] = ()) -> NDArray[np.int64]:
        """The scratch pointers of each segment, in memory of scratch_bytes from `address` on."""
        found = [self._scratch_of(segment.environment) for segment in segments]
        ends = address + np.cumsum(first_of_turns([nbytes for _, nbytes in found], turns), dtype=np.int64)
        rows = [offsets + end - nbytes for (offsets, nbytes), end in zip(found, ends, strict=True)]
        return np.array(rows, np.int64).reshape(len(rows), len(self.function.scratch))

    @property
    def launches(self) -> list[Kernels]:
        """The launches among the steps, in order."""
        return [step for step in self.function.steps if isinstance(step, (Launch, Phases))]

    def parts(self) -> Iterator[tuple[list[Kernels | LibraryCall], Value | None]]:
        """The steps up to each exchange, and what that makes the mean of; behind the last one the rest, and None."""
        part: list[Kernels | LibraryCall] = []
        for step in self.function.steps:
            if isinstance(step, Exchange):
                yield part, step.step.result
                part = []
            else:
                part.append(step)
        yield part, None

    def tables(self, launch: Kernels, segments: Sequence[Segment]) -> Tables:
        """The tables of a launch over a batch."""
        works = launch.works if isinstance(launch, Phases) else (launch.work,)
        keys = tuple(tuple(segment.environment.values()) for segment in segments)
        key = (isinstance(launch, Phases), works, keys)
        if key not in self._tables:
            tiles = [self._tiles(work, segments) for work in works]
            self._tables[key] = with_spans(tiles) if isinstance(launch, Phases) else Tables(tiles[0], len(tiles[0]))
        return self._tables[key]

    def _tiles(self, work: Work, segments: Sequence[Segment]) -> NDArray[np.uint32]:
        return tile_table([self.tile_count(work, segment.environment) for segment in segments])

    def tile_count(self, work: Work, environment: Environment) -> int:
        """Into how many tiles a segment's work is cut."""
        if work.size is None:
            return 1
        return max(1, -(-extent(work.size, self.environment(environment)) // work.per_tile))

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


def with_spans(tables: Sequence[NDArray[np.uint32]], head: Sequence[int] = ()) -> Tables:
    """Several tables of tiles as one, behind a row for each: where it begins and how many rows it has. In front of all,
    if given, a row that begins with `head`."""
    rows = [[*head, *[0] * (4 - len(head))]] if head else []
    at = len(rows) + len(tables)
    for table in tables:
        rows.append([at, len(table), 0, 0])
        at += len(table)
    return Tables(np.concatenate([np.array(rows, np.uint32), *tables]), max(len(table) for table in tables))


def tile_table(counts: Sequence[int]) -> NDArray[np.uint32]:
    """The tiles of segments with so many each, u32 [tiles, 4]: segment, index, count, 0."""
    table = np.zeros((sum(counts), 4), np.uint32)
    table[:, 0] = np.repeat(np.arange(len(counts)), counts)
    table[:, 1] = [index for count in counts for index in range(count)]
    table[:, 2] = np.repeat(np.array(counts, np.uint32), counts)
    return table
