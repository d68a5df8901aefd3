"""What a function keeps of a batch on a GPU, and how tables get there. Knows torch, not CuPy.

All memory is torch's: its allocators order reuse by stream and know CUDA graphs. Host tables lie in pinned memory
that torch hands out again only when the copy has been made; what is allocated while a graph is captured belongs to
that graph.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import RLock
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from compll.codegen.emit.cuda_launch import Phases
from compll.runtime.devices.base import Segment, Sums
from compll.runtime.devices.launching import BARRIER_BYTES, Environment, Launching
from compll.runtime.devices.merge_launching import MergeLaunching
from compll.sizes import extent

#: Batches whose tables and scratch a function keeps for one stream; a model's buckets are fewer.
KEPT_BATCHES = 64

#: From here on positions need 64 bits; 32 would do up to 2^32, but for what threads add to them at the end.
WIDE = 2**31


def upload(array: NDArray[Any], device: torch.device) -> torch.Tensor:
    """The array's bytes on the device, copied by the current stream; the host waits for nothing."""
    raw = np.ascontiguousarray(array).view(np.uint8).reshape(-1)
    host = torch.empty(raw.size, dtype=torch.uint8, pin_memory=device.type == "cuda")
    host.numpy()[:] = raw
    return host.to(device, non_blocking=True, copy=True)


@dataclass(frozen=True, slots=True)
class Grid:
    """The tiles of a launch (the most of a phase) and where its tables are."""

    tiles: int
    address: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """What depends on the segments' shapes only. `grids` has one for each launch, in order; at `barrier` the blocks of
    a launch meet; `scratch_pointers` are the last columns of each record table."""

    grids: tuple[Grid, ...]
    scratch_pointers: tuple[NDArray[np.int64], ...]
    barrier: int
    wide: bool
    memory: tuple[torch.Tensor, ...]  # what the addresses point into


@dataclass
class Lane:
    """One stream of one GPU as a function sees it: calls take turns, since they share the batches' scratch."""

    lock: RLock = field(default_factory=RLock)
    _batches: OrderedDict[object, Batch] = field(default_factory=OrderedDict)

    def batch(self, key: object, make: Callable[[], Batch]) -> Batch:
        """The batch of the shapes that `key` stands for. A captured call gets one of its own: its graph may run
        whenever, and starts by clearing its scratch."""
        if torch.cuda.is_current_stream_capturing():
            return make()
        if key not in self._batches:
            self._batches[key] = make()
            if len(self._batches) > KEPT_BATCHES:
                self._batches.popitem(last=False)
        self._batches.move_to_end(key)
        return self._batches[key]


def make_batch(launching: Launching, segments: Sequence[Segment], device: torch.device) -> Batch:
    """Tables in one copy, zeroed scratch with the barrier behind it."""
    tables = [launching.tables(launch, segments) for launch in launching.launches]
    distinct = {id(each): each for each in tables}
    rows = [each.rows for each in distinct.values()]
    uploaded = upload(np.concatenate(rows), device) if rows else torch.empty(0, device=device)
    grids, address = {}, uploaded.data_ptr()
    for name, each in distinct.items():
        grids[name] = Grid(each.tiles, address)
        address += each.rows.nbytes
    scratch_bytes = launching.scratch_bytes(segments)
    scratch = torch.zeros(scratch_bytes + BARRIER_BYTES, dtype=torch.uint8, device=device)
    return Batch(
        grids=tuple(grids[id(each)] for each in tables),
        scratch_pointers=(launching.scratch_table(segments, scratch.data_ptr()),),
        barrier=scratch.data_ptr() + scratch_bytes,
        wide=any(needs_wide(launching, segment.environment) for segment in segments),
        memory=(uploaded, scratch),
    )


def make_merge_batch(launching: MergeLaunching, sums: Sums, device: torch.device) -> Batch:
    """The same for a merge."""
    tables, parts = launching.tables(sums), launching.parts(sums)
    uploaded = upload(tables.rows, device)
    sizes = [part.launching.scratch_bytes(part.segments, part.turns) for part in parts]
    scratch = torch.zeros(sum(sizes) + BARRIER_BYTES, dtype=torch.uint8, device=device)
    starts = [scratch.data_ptr() + sum(sizes[:at]) for at in range(len(sizes))]
    pointers = [
        part.launching.scratch_table(part.segments, start, part.turns)
        for part, start in zip(parts, starts, strict=True)
    ]  # fmt: skip
    environments = [row[0].environment for row in sums.rows]
    return Batch(
        grids=(Grid(tables.tiles, uploaded.data_ptr()),),
        scratch_pointers=tuple(pointers),
        barrier=scratch.data_ptr() + sum(sizes),
        wide=any(needs_wide(each, e) for e in environments for each in (launching.first, launching.other)),
        memory=(uploaded, scratch),
    )


def needs_wide(launching: Launching, environment: Environment) -> bool:
    """Whether a position in some array or iteration space of the function needs more than 32 bits."""
    sizes, plan = launching.environment(environment), launching.plan
    works = [work for each in launching.launches for work in (each.works if isinstance(each, Phases) else (each.work,))]
    extents = [extent(work.size, sizes) for work in works if work.size is not None]
    arrays = [math.prod(extent(size, sizes) for size in buffer.shape) for buffer in plan.buffers]
    return max([int(environment["numel"]), *extents, *arrays]) >= WIDE
