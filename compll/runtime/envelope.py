"""What travels round a bucket's payloads: one flag byte for each gradient, then the payloads at aligned offsets.

The flags say whether a rank has a gradient (an all-zero one is none: the rank joined early or did not use the
parameter), whether it was finite, and whether encoding failed, so that all ranks hear of it in the same step. They are
no part of `payload_bytes`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

HAS_GRADIENT = 1
FINITE = 2
FAILED = 4
ALIGNMENT = 16  # bytes


@dataclass(frozen=True, slots=True)
class Envelope:
    """The layout for payloads of given sizes; equal on all ranks, since sizes depend on shapes and parameters only."""

    sizes: tuple[int, ...]

    @property
    def offsets(self) -> tuple[int, ...]:
        offsets, end = [], _align(len(self.sizes))
        for size in self.sizes:
            offsets.append(end)
            end += _align(size)
        return tuple(offsets)

    @property
    def nbytes(self) -> int:
        return _align(len(self.sizes)) + sum(_align(size) for size in self.sizes)

    def payloads(self, buffer: torch.Tensor) -> list[torch.Tensor]:
        """The payloads' parts of one rank's envelope, as views."""
        return [buffer[offset : offset + size] for offset, size in zip(self.offsets, self.sizes, strict=True)]

    def write_flags(self, buffer: torch.Tensor, flags: Sequence[int]) -> None:
        buffer[: len(flags)] = torch.tensor(flags, dtype=torch.uint8)

    def read_flags(self, buffer: torch.Tensor) -> list[int]:
        return [int(flag) for flag in buffer[: len(self.sizes)].tolist()]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What all ranks know of one gradient: which of them have it (by rank), whether it is finite everywhere, and who
    failed to encode it (a text; empty for nobody)."""

    present: tuple[bool, ...]
    finite: bool
    failed: str = ""

    @classmethod
    def of(cls, flags: Sequence[int]) -> Verdict:
        """From one flag byte for each rank."""
        failed = ", ".join(f"rank {rank}" for rank, f in enumerate(flags) if f & FAILED)
        return cls(tuple(bool(f & HAS_GRADIENT) for f in flags), all(f & FINITE for f in flags), failed)


def _align(nbytes: int) -> int:
    return -(-nbytes // ALIGNMENT) * ALIGNMENT
