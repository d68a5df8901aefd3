"""The picture of a job: loss against steps, and against bytes sent."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path

from compll.cli.picture import new_figure, save_figure
from compll.cli.training.results import Run

SMOOTHING = 0.9


def plot(runs: Sequence[Run], title: str, path: Path) -> None:
    """Write the picture. Raises CompllError as `save_figure` does."""
    figure = new_figure(11, 4.5)
    by_step, by_bytes = figure.subplots(1, 2, sharey=True)
    for run in runs:
        losses = smooth(run.losses)
        megabytes = [run.figures.bytes_per_step * (step + 1) / 1e6 for step in range(len(losses))]
        by_step.plot(losses, label=run.request.label, linewidth=1)
        by_bytes.plot(megabytes, losses, linewidth=1)
    by_step.set(xlabel="steps", ylabel="training loss, smoothed", yscale="log")
    by_bytes.set(xlabel="megabytes sent by each worker", xscale="log")
    figure.suptitle(title)
    figure.legend(loc="outside right upper", fontsize="small")
    save_figure(figure, path)


def smooth(losses: Sequence[float]) -> list[float]:
    """The exponential moving average that starts at the first loss."""
    return list(accumulate(losses, lambda mean, loss: SMOOTHING * mean + (1 - SMOOTHING) * loss))
