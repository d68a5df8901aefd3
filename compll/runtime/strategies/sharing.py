"""What strategies with owners have in common: messages to each rank, with the parts that it owns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from compll.runtime.codec import Part
from compll.runtime.envelope import Envelope, Flags, flag_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """The parts that one rank owns, and the layout of a message with a payload for each."""

    parts: Sequence[Part]
    envelope: Envelope

    @property
    def nbytes(self) -> int:
        return self.envelope.nbytes


class Shares(Sequence[Share]):
    """The parts of a unit by owner; `sizes` are the payloads' in bytes, by part."""

    def __init__(self, parts: Sequence[Part], sizes: Sequence[int], ranks: int) -> None:
        owned: list[list[tuple[Part, int]]] = [[] for _ in range(ranks)]
        for part, size in zip(parts, sizes, strict=True):
            owned[part.piece.owner].append((part, size))
        self._shares = [
            Share(parts=[part for part, _ in of_owner], envelope=Envelope(tuple(size for _, size in of_owner)))
            for of_owner in owned
        ]

    def __getitem__(self, owner: int) -> Share:  # type: ignore[override]
        return self._shares[owner]

    def __len__(self) -> int:
        return len(self._shares)

    @property
    def parts(self) -> list[Part]:
        """All parts, owner by owner."""
        return [part for share in self._shares for part in share.parts]

    @property
    def nbytes(self) -> list[int]:
        """Of each owner's message."""
        return [share.nbytes for share in self._shares]

    def split(self, buffer: torch.Tensor) -> Sequence[torch.Tensor]:
        """The messages for all owners, one after the other in a buffer of sum(nbytes), as views."""
        return torch.split(buffer, self.nbytes)

    def payloads(self, buffer: torch.Tensor) -> list[torch.Tensor]:
        """The payloads of all parts in such a buffer, owner by owner."""
        messages = self.split(buffer)
        return [p for share, message in zip(self, messages, strict=True) for p in share.envelope.payloads(message)]

    def write_flags(self, buffer: torch.Tensor, flags: Flags) -> None:
        """The flags of all parts, owner by owner."""
        of_owner = torch.split(flag_bytes(flags, buffer.device), [len(share.parts) for share in self])
        for share, message, theirs in zip(self, self.split(buffer), of_owner, strict=True):
            share.envelope.write_flags(message, theirs)

    def read_flags(self, buffer: torch.Tensor) -> list[int]:
        """As written, read at once: the host waits for the device."""
        messages = zip(self, self.split(buffer), strict=True)
        flags: list[int] = torch.cat([message[: len(share.parts)] for share, message in messages]).tolist()
        return flags
