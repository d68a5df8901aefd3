"""What the host must know of generated CUDA: which functions to launch, in which order, over how many tiles.

Every function has the signature `(const <Function>Segment* segments, const compll::Tile* tiles)`. The host evaluates
`work` for every segment of the batch, cuts it into tiles of `per_tile` (at least one a segment), lists them as
`compll::Tile {segment, index, count, 0}` of four u32 in order, and starts one block for each. A device follows these
records and knows no pattern.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Union

from compll.codegen import ir
from compll.sizes import Num, Size, apply

THREADS = 256
CHUNK = 4096
TILE = 4 * CHUNK
RUN = TILE // 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Scratch:
    """Memory of a segment that only kernels see: a pointer of the record behind those of the plan's record_fields.

    It has `count` elements of `element_bytes` bytes (alignment 8) and is zero before a call; kernels leave it as the
    next call needs it, so zeroing once is enough. `ctype` is the element's type in the generated text.
    """

    name: str
    ctype: str
    element_bytes: int
    count: Size


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """One launch of `function`: `per_tile` units of `work` to a block of `block` threads, no dynamic shared memory.

    `work` is a size of the segment; None means one tile for each segment.
    """

    function: str
    work: Size | None
    per_tile: int = TILE
    block: int = THREADS


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryCall:
    """A matrix product, left to the platform's library. Inside a loop it runs for inactive segments, too: their carried
    values are not copied, so it changes nothing."""

    step: ir.MatMul


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """The end of a round: `step.result` holds this rank's value here, the mean over all ranks must be in it next."""

    step: ir.AllReduce


LaunchStep = Union[Launch, LibraryCall, Exchange]


def launch_bounds(block: int) -> str:
    """What `__launch_bounds__` says of a block: without a number of blocks, ptxas spills registers for occupancy."""
    return f"{block}, 2" if block == THREADS else str(block)


def parts_of(extent: Size, size: int) -> Size:
    """How many parts of `size` an extent has, at least one."""
    return apply("max", Num(1), apply("ceil", apply("div", extent, Num(size))))
