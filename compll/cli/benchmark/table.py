"""The rows of one workload as a table."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from compll.cli.benchmark.contest import Timing
from compll.cli.benchmark.rows import DECODE, DECODE_ADD, Row


def rows_table(rows: Sequence[Row], title: str) -> Table:
    """One block for each compressor, with a line for each peer. C is the copy; in brackets the quartiles."""
    table = Table(title=title, caption="C: one fp32 copy of as many elements, in the same run; in brackets: quartiles")
    table.add_column("compressor")
    table.add_column("feedback")
    for heading in ("encode ms", "encode C", "decode C", "add C"):
        table.add_column(heading, justify="right")
    table.add_column("beside it")
    for heading in ("C", "times"):
        table.add_column(heading, justify="right")
    for row in rows:
        lines = [(name, f"{row.copies(t.ms):.2f}", f"{row.speedup(name):.2f}") for name, t in row.peers.items()]
        names, copies, speedups = ("\n".join(cells) for cells in zip(*lines, strict=True))
        table.add_row(
            row.label, "yes" if row.compressor.feedback else "no", f"{row.encode.ms:.3f}", spread(row, row.encode),
            *(f"{row.copies(row.timings[name].ms):.2f}" for name in (DECODE, DECODE_ADD)), names, copies, speedups,
            end_section=True,
        )  # fmt: skip
    return table


def spread(row: Row, timing: Timing) -> str:
    """`1.20 [1.15, 1.31]`, in copies."""
    middle, low, high = (row.copies(ms) for ms in (timing.ms, timing.low, timing.high))
    return f"{middle:.2f} [{low:.2f}, {high:.2f}]"
