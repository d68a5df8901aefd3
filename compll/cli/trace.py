"""`compll trace`: the timeline of a few synchronised steps."""

from __future__ import annotations

import json as json_format
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from compll.cli.output import console
from compll.cli.training import results
from compll.cli.training.data import LOADERS
from compll.cli.training.exchange import BASELINES
from compll.cli.training.launch import run_job
from compll.cli.training.prepare import prepare
from compll.cli.training.request import parse_request
from compll.cli.training.tasks import TASKS
from compll.cli.training.tracing import Timeline, trace_steps


def trace(
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="Where the timeline goes.")],
    compressor: Annotated[
        str, typer.Option(metavar="NAME[:key=value,...]", help="A shipped program or a path; options of SyncState too.")
    ] = "topk",
    task: Annotated[str, typer.Option(help=f"What to train: {', '.join(TASKS)}.")] = "digits",
    workers: Annotated[int, typer.Option(min=1, help="Number of worker processes.")] = 2,
    steps: Annotated[int, typer.Option(min=1, max=64, help="How many steps.")] = 8,
    seed: Annotated[int, typer.Option(min=0, help="Of the weights and of random draws.")] = 0,
) -> None:
    """Train a few steps and write when each gradient was computed, encoded, sent, received and decoded.

    The file is in the Chrome trace format: open it in chrome://tracing or ui.perfetto.dev.
    """
    if task not in TASKS:
        raise typer.BadParameter(f"needs one of {', '.join(TASKS)}, got `{task}`", param_hint="--task")
    request = parse_request(compressor)
    if request.name in BASELINES:
        raise typer.BadParameter(f"needs a program, got the baseline `{request.name}`", param_hint="--compressor")
    with Console(stderr=True).status("compiling"):
        prepare([request], TASKS[task].model())
    job = results.Job(
        task=task, data=LOADERS[task](), requests=(request,), workers=workers, seed=seed, steps=steps, store=""
    )
    traces = [event.trace for event in run_job(job, trace_steps) if isinstance(event, Timeline)]
    events: list[dict[str, Any]] = [event for each in traces for event in each["traceEvents"]]
    output.write_text(json_format.dumps({"traceEvents": events, "displayTimeUnit": "ms"}))
    console().print(f"{steps} steps of {workers} workers with {request.label}: {output}")
