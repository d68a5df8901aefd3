"""A merge made of two loaded functions, called in turns: where a device has nothing better for a program."""

from __future__ import annotations

from dataclasses import dataclass

from compll.runtime.devices.base import LoadedFunction, Sums
from compll.runtime.rounding import divide


@dataclass(frozen=True)
class TurnByTurn:
    """`decode` and `decode_add` of one compilation on one device."""

    decode: LoadedFunction
    decode_add: LoadedFunction

    def __call__(self, sums: Sums, threads: int | None = None) -> None:
        """As `LoadedMerge` says."""
        for turn in range(max(map(len, sums.rows))):
            function = self.decode_add if sums.add or turn else self.decode
            function([row[turn] for row in sums.rows if turn < len(row)], threads)
        divide([row[0].arrays["out"] for row in sums.rows], sums.divisors)
