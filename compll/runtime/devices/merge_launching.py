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
from compll.runtime.devices.base import Segment
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

    def parts(self, rows: Rows, *, add: bool) -> tuple[Part, ...]:
        """The records that the kernel is given, an argument each."""
        if isinstance(self.launch, FusedMerge):
            return (self._part([segment for row in rows for segment in row], [len(row) for row in rows], first=True),)
        skipped = 0 if add else 1
        firsts = [] if add else [row[0] for row in rows]
        others = [segment for row in rows for segment in row[skipped:]]
        turns = [len(row) - skipped for row in rows if len(row) > skipped]
        return (self._part(firsts, [1] * len(firsts), first=True), self._part(others, turns, first=False))

    def _part(self, segments: Sequence[Segment], turns: Sequence[int], *, first: bool) -> Part:
        launching, records = (
            (self.first, self._first_records) if first else (self.other, self._other_records)
        )  # fmt: skip
        return Part(launching=launching, records=records, segments=segments, turns=turns)

    def key(self, rows: Rows, *, add: bool) -> object:
        """What the tables depend on."""
        return add, tuple((tuple(row[0].environment.values()), len(row)) for row in rows)

    def tables(self, rows: Rows, *, add: bool) -> Tables:
        """The tables of a merge."""
        key = self.key(rows, add=add)
        if key not in self._tables:
            fused = isinstance(self.launch, FusedMerge)
            self._tables[key] = self._fused(rows, add) if fused else self._phased(rows, add)
        return self._tables[key]

    def _fused(self, rows: Rows, add: bool) -> Tables:
        assert isinstance(self.launch, FusedMerge)
        lengths = np.array([len(row) for row in rows], np.uint32)
        table = self._tiles(self.launch.work, self.first, rows)
        table[:, 3] = lengths[table[:, 0]] | (ADDS if add else 0)
        table[:, 0] = (np.cumsum(lengths) - lengths)[table[:, 0]]
        return Tables(table, len(table))

    def _phased(self, rows: Rows, add: bool) -> Tables:
        assert isinstance(self.launch, PhasedMerge)
        skipped = 0 if add else 1
        firsts = [self._tiles(work, self.first, [] if add else rows) for work in self.launch.first_works]
        turns = [len(row) - skipped for row in rows]
        begins = np.array([0, *accumulate(turns)], np.uint32)
        others = []
        for turn in range(max(turns)):
            live = [at for at, count in enumerate(turns) if turn < count]
            for work in self.launch.other_works:
                table = self._tiles(work, self.other, [rows[at] for at in live])
                table[:, 0] = begins[live][table[:, 0]] + np.uint32(turn)
                others.append(table)
        return with_spans([*firsts, *others], [max(turns)])

    def _tiles(self, work: Work, launching: Launching, rows: Rows) -> NDArray[np.uint32]:
        return tile_table([launching.tile_count(work, row[0].environment) for row in rows])
