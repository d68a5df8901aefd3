"""What travels round payloads: one flag byte for each, then the payloads at aligned offsets.

The flags say whether a rank has a gradient (an all-zero one is none: the rank joined early or did not use the
parameter), whether it was finite, and that all that led to it was done without failure. Memory that nobody wrote is
zeros, which says that something failed: so all ranks hear of a failure in the same step. Flags are no part of
`payload_bytes`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Union

import torch

from compll.runtime.streams import uploaded

HAS_GRADIENT = 1
FINITE = 2
SOUND = 4
ABSENT = FINITE | SOUND  # the flags of a rank without a gradient
WHOLE = HAS_GRADIENT | ABSENT  # and of one that has nothing to complain of
ALIGNMENT = 16  # bytes

#: As the host knows them, or uint8 on the device of what they are of.
Flags = Union[Sequence[int], torch.Tensor]


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

    def write_flags(self, buffer: torch.Tensor, flags: Flags) -> None:
        buffer[: len(self.sizes)].copy_(flag_bytes(flags, buffer.device))

    def read_flags(self, buffer: torch.Tensor) -> list[int]:
        return self.read_all_flags([buffer])[0]

    def read_all_flags(self, buffers: Sequence[torch.Tensor]) -> list[list[int]]:
        """The flags of several envelopes with this layout, read at once: the host waits for the device."""
        rows: list[list[int]] = torch.stack([buffer[: len(self.sizes)] for buffer in buffers]).tolist()
        return rows


def flag_bytes(flags: Flags, device: torch.device) -> torch.Tensor:
    """As uint8 on a device; nobody waits."""
    return flags if isinstance(flags, torch.Tensor) else uploaded(flags, torch.uint8, device)


def where_finite(flags: Sequence[int], finite: Mapping[int, torch.Tensor], device: torch.device) -> torch.Tensor:
    """`flags` as uint8 on the device, without FINITE at the positions whose tensor in `finite` (bool, one element) says
    so; nobody waits for what they say."""
    known = flag_bytes(flags, device)
    if not finite:
        return known
    unknown = torch.ones(1, dtype=torch.bool, device=device)
    asked = torch.cat([finite.get(position, unknown) for position in range(len(flags))])
    return torch.where(asked, known, known & (WHOLE & ~FINITE))


def votes(flags: torch.Tensor, bits: Sequence[int]) -> torch.Tensor:
    """Which of `bits` every flag has, as 0 or 1, f32 [flags, bits]: summed over the ranks, what `counted` takes."""
    return torch.stack([(flags & bit).bool() for bit in bits], dim=1).float()


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
