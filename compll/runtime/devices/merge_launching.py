"""What the launch of a merge is given: which records, in which order, and tables of tiles.

Shared by the devices that run CUDA text, as `launching` is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from compll.codegen.driver import Compilation
from compll.codegen.emit.cuda import cuda_merge
from compll.codegen.emit.cuda_launch import FusedMerge, PhasedMerge, Work
from compll.runtime.devices.base import Segment, Sums
from compll.runtime.devices.launching import Launching, Tables, tile_table, with_spans
from compll.runtime.devices.records import Records

Rows = Sequence[Sequence[Segment]]

ADDS = np.uint32(2**31)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """The segments whose records one argument of the kernel points to; `turns` as in Records.table."""

    launching: Launching
    records: Records
    segments: Sequence[Segment]
    turns: Sequence[int]


@dataclass
class MergeLaunching:
    """One program's merge; everything that depends on shapes only is worked out once."""

    launch: FusedMerge | PhasedMerge
    first: Launching
    other: Launching
    _first_records: Records
    _other_records: Records
    _tables: dict[object, Tables] = field(default_factory=dict)

    @classmethod
    def of(cls, compilation: Compilation) -> MergeLaunching | None:
        """None where a program's payloads are merged turn by turn."""
        merge = cuda_merge(compilation.plans)
        if merge is None:
            return None
        program = compilation.program
        first, other = (compilation.plans[name] for name in ("decode", "decode_add"))
        launchings, records = (Launching(program, first), Launching(program, other)), Records
        return cls(merge.launch, *launchings, records(program, first), records(program, other))

    @property
    def together(self) -> bool:
        """Whether it is a cooperative launch."""
        return isinstance(self.launch, PhasedMerge)

    def parts(self, sums: Sums) -> tuple[Part, ...]:
        """The records that the kernel is given, an argument each."""
        rows = sums.rows
        if isinstance(self.launch, FusedMerge):
            return (self._part([segment for row in rows for segment in row], [len(row) for row in rows], first=True),)
        skipped = 0 if sums.add else 1
        others = [segment for row in rows for segment in row[skipped:]]
        turns = [len(row) - skipped for row in rows if len(row) > skipped]
        return (
            self._part([row[0] for row in rows], [1] * len(rows), first=True), self._part(others, turns, first=False)
        )  # fmt: skip

    def _part(self, segments: Sequence[Segment], turns: Sequence[int], *, first: bool) -> Part:
        launching, records = (
            (self.first, self._first_records) if first else (self.other, self._other_records)
        )  # fmt: skip
        return Part(launching=launching, records=records, segments=segments, turns=turns)

    def key(self, sums: Sums) -> object:
        """What the tables depend on."""
        shapes = tuple((tuple(row[0].environment.values()), len(row)) for row in sums.rows)
        return sums.add, shapes, tuple(sums.divisors)

    def tables(self, sums: Sums) -> Tables:
        """The tables of a merge."""
        key = self.key(sums)
        if key not in self._tables:
            fused = isinstance(self.launch, FusedMerge)
            self._tables[key] = self._fused(sums) if fused else self._phased(sums)
        return self._tables[key]

    def _fused(self, sums: Sums) -> Tables:
        assert isinstance(self.launch, FusedMerge)
        lengths = np.array([len(row) for row in sums.rows], np.uint32)
        table = self._tiles(self.launch.work, self.first, sums.rows)
        row = table[:, 0]
        table[:, 3] = lengths[row] | (ADDS if sums.add else 0)
        table[:, 2] = _bits(sums.divisors)[row]
        table[:, 0] = (np.cumsum(lengths) - lengths)[row]
        return Tables(table, len(table))

    def _phased(self, sums: Sums) -> Tables:
        assert isinstance(self.launch, PhasedMerge)
        rows, skipped = sums.rows, 0 if sums.add else 1
        firsts = [self._tiles(work, self.first, [] if sums.add else rows) for work in self.launch.first_works]
        turns = [len(row) - skipped for row in rows]
        begins = np.array([0, *accumulate(turns)], np.uint32)
        others = []
        for turn in range(max(turns)):
            live = [at for at, count in enumerate(turns) if turn < count]
            for work in self.launch.other_works:
                table = self._tiles(work, self.other, [rows[at] for at in live])
                table[:, 0] = begins[live][table[:, 0]] + np.uint32(turn)
                others.append(table)
        return with_spans([*firsts, self._dividing(sums, self.launch.dividing), *others], [max(turns)])

    def _dividing(self, sums: Sums, work: Work) -> NDArray[np.uint32]:
        """The tiles of the rows whose sums are divided."""
        live = np.array([at for at, divisor in enumerate(sums.divisors) if divisor > 1], np.uint32)
        table = self._tiles(work, self.first, [sums.rows[at] for at in live])
        table[:, 0] = live[table[:, 0]]
        table[:, 2] = _bits(sums.divisors)[table[:, 0]]
        return table

    def _tiles(self, work: Work, launching: Launching, rows: Rows) -> NDArray[np.uint32]:
        return tile_table([launching.tile_count(work, row[0].environment) for row in rows])


def _bits(divisors: Sequence[int]) -> NDArray[np.uint32]:
    return np.array(divisors, np.float32).view(np.uint32)
