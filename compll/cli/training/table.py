"""The table of a job."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from compll.cli.training.results import Run

UNITS = {"accuracy": "accuracy %", "loss": "loss"}


def results_table(runs: Sequence[Run], title: str) -> Table:
    """One line for each run; times are milliseconds of one step on rank 0."""
    table = Table(title=title)
    table.add_column("compressor")
    for heading in (UNITS[runs[0].metric], "bytes/step", "ratio", "step ms", "encode", "comm", "decode", "overlap"):
        table.add_column(heading, justify="right")
    for run in runs:
        figures = run.figures
        table.add_row(
            run.request.label, f"{run.value:.2f}", f"{figures.bytes_per_step:,.0f}", f"{run.ratio:.1f}",
            f"{run.step_ms:.2f}", f"{figures.encode_ms:.2f}", f"{figures.comm_ms:.2f}", f"{figures.decode_ms:.2f}",
            "-" if figures.overlap is None else f"{figures.overlap:.0%}",
        )  # fmt: skip
    return table
