"""A merge made of two loaded functions, called in turns: where a device has nothing better for a program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from compll.runtime.devices.base import LoadedFunction, Segment


@dataclass(frozen=True)
class TurnByTurn:
    """`decode` and `decode_add` of one compilation on one device."""

    decode: LoadedFunction
    decode_add: LoadedFunction

    def __call__(self, rows: Sequence[Sequence[Segment]], *, add: bool, threads: int | None = None) -> None:
        """As `LoadedMerge` says."""
        for turn in range(max(map(len, rows))):
            function = self.decode_add if add or turn else self.decode
            function([row[turn] for row in rows if turn < len(row)], threads)
