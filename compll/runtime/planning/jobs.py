"""What one step has to synchronise: gradients in the order and at the times in which backward gives them. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from compll.diagnostics import CompllError
from compll.runtime.dealing import dealt

ITEM_BYTES = {"float16": 2, "bfloat16": 2, "float32": 4, "float64": 8, "complex64": 8, "complex128": 16}

#: DDP's own: a first bucket that starts the exchange early, then larger ones, in bytes.
FIRST_BUCKET = 1 << 20
BUCKET = 25 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Gradient:
    """One parameter's gradient; `ready_s` is when backward has it, in seconds from the start of the step.

    Raises CompllError for a dtype that is not one of ITEM_BYTES.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str = "float32"
    bucket: int
    ready_s: float
    compressible: bool

    def __post_init__(self) -> None:
        if self.dtype not in ITEM_BYTES:
            raise CompllError(f"gradient `{self.name}` needs a dtype of {', '.join(ITEM_BYTES)}, got `{self.dtype}`")

    @property
    def numel(self) -> int:
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.numel * ITEM_BYTES[self.dtype]


@dataclass(frozen=True, kw_only=True)
class Job:
    """The gradients of a step in bucket order, when backward ends, and how long the step goes on after everything is
    synchronised (the optimiser), in seconds."""

    gradients: tuple[Gradient, ...]
    backward_s: float
    rest_s: float = 0.0

    @cached_property
    def buckets(self) -> tuple[tuple[Gradient, ...], ...]:
        """The gradients of each bucket, in the order in which DDP hands them out; CompllError for none."""
        if not self.gradients:
            raise CompllError("a plan needs at least one gradient")
        found: dict[int, list[Gradient]] = {}
        for gradient in self.gradients:
            found.setdefault(gradient.bucket, []).append(gradient)
        return tuple(tuple(found[index]) for index in sorted(found))

    @property
    def nbytes(self) -> int:
        """Of all gradients, uncompressed."""
        return sum(g.nbytes for g in self.gradients)


def bucket_numbers(nbytes: Sequence[int], dtypes: Sequence[str]) -> list[int]:
    """In which bucket DDP puts each gradient, listed in the order in which they get ready: a bucket is closed when it
    has reached its size; every dtype has buckets of its own."""
    numbers: list[int] = []
    open_buckets: dict[str, tuple[int, int]] = {}
    opened: dict[str, int] = {}
    for size, dtype in zip(nbytes, dtypes, strict=True):
        number, filled = open_buckets.pop(dtype, (max(numbers, default=-1) + 1, 0))
        if not filled:
            opened[dtype] = opened.get(dtype, 0) + 1
        numbers.append(number)
        if filled + size < (FIRST_BUCKET if opened[dtype] == 1 else BUCKET):
            open_buckets[dtype] = (number, filled + size)
    return numbers


def part_shapes(shape: Sequence[int], parts: int) -> Iterable[tuple[int, ...]]:
    """The shapes of a gradient's partitions: its rows (first extent) dealt out as evenly as possible."""
    return ((rows, *shape[1:]) for rows in dealt(shape[0], parts))
