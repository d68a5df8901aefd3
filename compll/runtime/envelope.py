"""What travels round payloads: one flag byte for each, then the payloads at aligned offsets.

The flags say whether a rank has a gradient (an all-zero one is none: the rank joined early or did not use the
parameter), whether it was finite, and that all that led to it was done without failure. Memory that nobody wrote is
zeros, which says that something failed: so all ranks hear of a failure in the same step. Flags are no part of
`payload_bytes`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

HAS_GRADIENT = 1
FINITE = 2
SOUND = 4
ABSENT = FINITE | SOUND  # the flags of a rank without a gradient
WHOLE = HAS_GRADIENT | ABSENT  # and of one that has nothing to complain of
ALIGNMENT = 16  # bytes


@dataclass(frozen=True, slots=True)
class Envelope:
    """The layout for payloads of given sizes; equal on all ranks, since sizes depend on shapes and parameters only."""

    sizes: tuple[int, ...]

    @property
    def offsets(self) -> tuple[int, ...]:
        offsets, end = [], align(len(self.sizes))
        for size in self.sizes:
            offsets.append(end)
            end += align(size)
        return tuple(offsets)

    @property
    def nbytes(self) -> int:
        return align(len(self.sizes)) + sum(align(size) for size in self.sizes)

    def payloads(self, buffer: torch.Tensor) -> list[torch.Tensor]:
        """The payloads' parts of one envelope, as views."""
        return [buffer[offset : offset + size] for offset, size in zip(self.offsets, self.sizes, strict=True)]

    def write_flags(self, buffer: torch.Tensor, flags: Sequence[int]) -> None:
        buffer[: len(flags)] = torch.tensor(flags, dtype=torch.uint8)

    def read_flags(self, buffer: torch.Tensor) -> list[int]:
        return [int(flag) for flag in buffer[: len(self.sizes)].tolist()]


def joined(flags: Sequence[int]) -> int:
    """The flags of a sum: there if any part is, finite and sound if all are."""
    together = ABSENT
    for flag in flags:
        together = together & flag | (together | flag) & HAS_GRADIENT
    return together


def counted(have: float, finite: float, sound: float, everyone: int) -> int:
    """The flags of a sum, from on how many of all ranks it is there, finite and sound."""
    return (have > 0) * HAS_GRADIENT | (finite == everyone) * FINITE | (sound == everyone) * SOUND


def align(nbytes: int) -> int:
    return -(-nbytes // ALIGNMENT) * ALIGNMENT
