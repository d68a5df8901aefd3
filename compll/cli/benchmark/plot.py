"""The picture of a benchmark: what encoding costs in copies, beside the peers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from compll.cli.benchmark.rows import ENCODE, Row
from compll.cli.picture import new_figure, save_figure

HEIGHT = 0.8


def plot(rows: Sequence[Row], path: Path) -> None:
    """One group of bars for each row, from above; whiskers are quartiles. Raises CompllError as `save_figure` does."""
    figure = new_figure(9, 1.5 + 0.7 * len(rows))
    axes = figure.subplots()
    kinds = list(dict.fromkeys(name for row in rows for name in (ENCODE, *row.peers)))
    for place, kind in enumerate(kinds):
        have = [(number, row, row.timings[kind]) for number, row in enumerate(rows) if kind in row.timings]
        middles = [row.copies(timing.ms) for _, row, timing in have]
        below = [row.copies(timing.ms - timing.low) for _, row, timing in have]
        above = [row.copies(timing.high - timing.ms) for _, row, timing in have]
        thickness = HEIGHT / len(kinds)
        places = [number + (place + 0.5) * thickness - HEIGHT / 2 for number, _, _ in have]
        axes.barh(places, middles, thickness, xerr=(below, above), label="compll" if kind == ENCODE else kind)
    axes.set_yticks(range(len(rows)), [f"{row.label}\n{row.workload.name}" for row in rows])
    axes.invert_yaxis()
    axes.set(xscale="log", xlabel="encode, in copies of as many elements")
    axes.axvline(1, color="black", linewidth=0.8)
    figure.legend(loc="outside upper center", ncols=len(kinds), fontsize="small")
    save_figure(figure, path)
