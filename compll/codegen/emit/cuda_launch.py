"""What the host must know of generated CUDA: which functions to launch, in which order, over how many tiles.

The host evaluates a `Work` for every segment of the batch, cuts it into tiles (at least one a segment) and lists them
as `compll::Tile {segment, index, count, 0}` of four u32 in order. A device follows these records and knows no pattern.
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


@dataclass(frozen=True, slots=True)
class Work:
    """`per_tile` units of a size of the segment to a tile; None means one tile for each segment."""

    size: Size | None
    per_tile: int = TILE


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """One launch of `function(const <Function>Segment* segments, const compll::Tile* tiles)`, a block for each tile.

    A block has `block` threads and no dynamic shared memory.
    """

    function: str
    work: Work
    block: int = THREADS


@dataclass(frozen=True, slots=True, kw_only=True)
class Phases:
    """One cooperative launch of `function(segments, const compll::Tile* tables, compll::Barrier* barrier)`, in which
    `phases` (names for people, in order) follow each other.

    The tables begin with a row `{first, tiles, 0, 0}` for each of `works`: where its tiles are among the rows behind
    those. As many blocks as the device can keep alive together, at most the most tiles of a work, of THREADS threads;
    the barrier is zero before the first launch and left for the next.
    """

    function: str
    works: tuple[Work, ...]
    phases: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FusedMerge:
    """One launch of `function(const DecodeSegment* records, const compll::Tile* tiles)` that adds up rows of payloads.

    Records of a row follow each other; a tile of the row has the first as its segment, in place of the count the
    divisor (the bits of an f32), and as its last word how many there are, plus 2^31 where they are added to what `out`
    holds. Scratch pointers are not used.
    """

    function: str
    work: Work


@dataclass(frozen=True, slots=True, kw_only=True)
class PhasedMerge:
    """The same as a cooperative launch of `function(firsts, others, const compll::Tile* tables, compll::Barrier*)`:
    `firsts` are records of decode, one for each row, `others` of decode_add.

    The tables begin with a row `{turns, 0, 0, 0}`, then spans as in `Phases`: for each of `first_works` (without tiles
    where all is added to what `out` holds), for `dividing` and, for each turn of decode_add, for each of `other_works`.
    Tiles of `dividing` have the divisor as in `FusedMerge`; rows divided by 1 have none. Records of one row may share
    temporaries and scratch.
    """

    function: str
    first_works: tuple[Work, ...]
    dividing: Work
    other_works: tuple[Work, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryCall:
    """A matrix product, left to the platform's library. Inside a loop it runs for inactive segments, too: their carried
    values are not copied, so it changes nothing."""

    step: ir.MatMul


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """The end of a round: `step.result` holds this rank's value here, the mean over all ranks must be in it next."""

    step: ir.AllReduce


LaunchStep = Union[Launch, Phases, LibraryCall, Exchange]


def launch_bounds(block: int) -> str:
    """What `__launch_bounds__` says of a block: without a number of blocks, ptxas spills registers for occupancy."""
    return f"{block}, 2" if block == THREADS else str(block)


def parts_of(extent: Size, size: int) -> Size:
    """How many parts of `size` an extent has, at least one."""
    return apply("max", Num(1), apply("ceil", apply("div", extent, Num(size))))
