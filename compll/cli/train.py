"""`compll train`: the demo job, compressed against dense."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from compll import algorithms
from compll.cli.arguments import Json
from compll.cli.output import console, write_json
from compll.cli.training import results
from compll.cli.training.data import LOADERS
from compll.cli.training.exchange import BASELINES
from compll.cli.training.launch import run_job
from compll.cli.training.plot import plot as draw
from compll.cli.training.prepare import prepare
from compll.cli.training.request import Request, parse_request
from compll.cli.training.table import results_table
from compll.cli.training.tasks import TASKS, Dataset, Task

#: Every job starts with it: the ratios and accuracies of the others are told against it.
DENSE = Request(name="dense", params={})


def train(
    task: Annotated[str, typer.Option(help=f"What to learn: {', '.join(TASKS)}.")] = "digits",
    compressor: Annotated[
        Optional[list[str]],
        typer.Option(
            metavar="NAME[:key=value,...]",
            help=f"A shipped program, a path or a baseline ({', '.join(BASELINES)}); repeat for several. "
            "0.25/100:0.01 is a schedule: 0.25 at first, 0.01 from step 100 on.",
        ),
    ] = None,
    workers: Annotated[int, typer.Option(min=1, help="Number of worker processes.")] = 4,
    seed: Annotated[int, typer.Option(min=0, help="Of the weights and of the order of the examples.")] = 0,
    epochs: Annotated[Optional[int], typer.Option(min=1, help="Passes over the data.")] = None,
    steps: Annotated[Optional[int], typer.Option(min=1, help="Number of steps, instead of epochs.")] = None,
    json: Json = None,
    plot: Annotated[Optional[Path], typer.Option(metavar="FILE", help="Draw the losses.")] = None,
) -> None:
    """Train one model with several worker processes: dense first, then with each compressor; print a table."""
    if task not in TASKS:
        raise typer.BadParameter(f"needs one of {', '.join(TASKS)}, got `{task}`", param_hint="--task")
    if epochs and steps:
        raise typer.BadParameter("give either --epochs or --steps, not both", param_hint="--steps")
    texts = algorithms.DEMO if compressor is None else compressor
    requests = (DENSE, *(parse_request(text) for text in texts if text != DENSE.name))
    data = LOADERS[task]()
    with Console(stderr=True).status("compiling"):
        prepare(requests, TASKS[task].model())
    job = results.Job(
        task=task, data=data, requests=requests, workers=workers, seed=seed,
        steps=steps or _steps(TASKS[task], data, workers, epochs), store="",
    )  # fmt: skip
    runs = _follow(job)
    title = f"{task}, {workers} workers, {job.steps} steps, seed {seed}"
    console().print(results_table(runs, title))
    report = {"task": task, "workers": workers, "seed": seed, "steps": job.steps, "runs": [r.as_json() for r in runs]}
    write_json(json, report)
    if plot:
        draw(runs, title, plot)


def _steps(task: Task, data: Dataset, workers: int, epochs: int | None) -> int:
    if epochs is None and task.steps:
        return task.steps
    return (epochs or task.epochs) * (len(data.train_targets) // (task.batch * workers))


def _follow(job: results.Job) -> list[results.Run]:
    """Run the job with a bar for each run; returns the runs in order."""
    runs: list[results.Run] = []
    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("loss {task.fields[loss]:.3f}"),
        TimeElapsedColumn(),
    )  # fmt: skip
    with Progress(*columns, console=Console(stderr=True)) as bars:
        lines = [bars.add_task(r.label, total=job.steps, loss=float("nan"), start=False) for r in job.requests]
        bars.start_task(lines[0])
        for event in run_job(job):
            match event:
                case results.Progress():
                    bars.update(lines[event.run], completed=event.step, loss=event.loss)
                case results.Run():
                    bars.update(lines[len(runs)], completed=job.steps, loss=event.losses[-1])
                    bars.stop_task(lines[len(runs)])
                    runs.append(event)
                    if len(runs) < len(lines):
                        bars.start_task(lines[len(runs)])
    return runs
