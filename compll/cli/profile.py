"""`compll profile`: what encoding, collectives and backward cost on this machine and process group."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer
from rich.console import Console

from compll import algorithms
from compll.cli.output import console, write_json
from compll.cli.planning.measure import LARGEST, Wanted, prepare
from compll.cli.planning.tables import profile_table
from compll.cli.planning.worker import is_launched, launched_profile, work
from compll.cli.training.launch import run_job
from compll.cli.training.request import parse_request
from compll.diagnostics import CompllError
from compll.runtime.planning.profile import Profile

Model = Annotated[
    str, typer.Option(metavar="MODEL|module:function", help="resnet50, bert-large, a task of train, or your own.")
]
Compressors = Annotated[
    Optional[list[str]],
    typer.Option(metavar="NAME[:key=value,...]", help="A shipped program or a path; repeat for several."),
]
ComputeMs = Annotated[
    Optional[float], typer.Option(min=0.0, help="Forward and backward of a model of which only shapes are here.")
]
MinNumel = Annotated[int, typer.Option(min=0, help="Smaller gradients are never compressed.")]


def profile(
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE")] = Path("profile.json"),
    model: Model = "digits",
    compressor: Compressors = None,
    workers: Annotated[int, typer.Option(min=1, help="Worker processes; torchrun's own number where it starts.")] = 4,
    node_size: Annotated[int, typer.Option(min=1, help="Ranks per node.")] = 1,
    threads: Annotated[int, typer.Option(min=1, help="Threads of each worker.")] = 1,
    largest: Annotated[int, typer.Option(min=1 << 12, help="Elements of the largest gradient measured.")] = LARGEST,
    repeats: Annotated[int, typer.Option(min=1, help="How often everything is timed.")] = 7,
    min_numel: MinNumel = 1024,
    compute_ms: ComputeMs = None,
) -> None:
    """Measure encode, decode, collectives and backward, and write a profile for `compll plan` and `simulate`."""
    if not is_launched() and workers % node_size:
        raise CompllError(f"{workers} workers cannot be divided into nodes of {node_size}")
    requests = tuple(parse_request(text) for text in compressor or algorithms.USUAL)
    wanted = Wanted(
        model=model, requests=requests, workers=workers, node_size=node_size, threads=threads, largest=largest,
        repeats=repeats, min_numel=min_numel, compute_s=compute_ms and compute_ms / 1e3,
    )  # fmt: skip
    found = launched_profile(wanted) if is_launched() else _spawned(wanted)
    if found is not None:
        write_json(output, found.to_json())
        console().print(profile_table(found))
        console().print(f"written to {output}")


def _spawned(wanted: Wanted) -> Profile:
    prepare(wanted)
    with Console(stderr=True).status(f"measuring with {wanted.workers} workers"):
        found: list[Profile] = list(run_job(wanted, work))
    return found[0]
