"""A blank picture, and how it gets into a file: the only user of matplotlib."""

from __future__ import annotations

from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from compll.diagnostics import CompllError


def new_figure(width: float, height: float) -> Figure:
    """An empty figure of a size in inches; no window, whatever the machine has."""
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def save_figure(figure: Figure, path: Path) -> None:
    """Write the picture; the ending of `path` chooses the format. Raises CompllError when that cannot be done."""
    try:
        figure.savefig(path, dpi=120)
    except (OSError, ValueError) as problem:
        raise CompllError(f"cannot draw `{path}`: {problem}") from None
