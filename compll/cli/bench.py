"""`compll bench`: what encoding and decoding cost, as multiples of a copy and beside other ways to do it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import Annotated, Optional

import torch
import typer
from rich.console import Console
from rich.status import Status

import compll
from compll.cli.arguments import Json
from compll.cli.benchmark.peers import baselines
from compll.cli.benchmark.plot import plot as draw
from compll.cli.benchmark.rows import Row, measure
from compll.cli.benchmark.table import rows_table
from compll.cli.benchmark.workload import Workload, parse_workload
from compll.cli.output import console, show_error, write_json
from compll.cli.training.request import parse_request
from compll.diagnostics import CompllError
from compll.runtime.load import built_in_names


class Backend(str, Enum):
    cpu = "cpu"
    cuda = "cuda"
    reference = "reference"


def bench(
    compressor: Annotated[
        Optional[list[str]],
        typer.Option(
            metavar="NAME[:key=value,...]",
            help="A shipped program or a path; repeat for several. Default: all shipped ones.",
        ),
    ] = None,
    shapes: Annotated[
        Optional[list[str]],
        typer.Option(metavar="MODEL|flat:N|ROWSxCOLS", help="What is compressed: resnet50, bert-large, or one tensor."),
    ] = None,
    backend: Annotated[Backend, typer.Option(help="What runs the kernels.")] = Backend.cpu,
    threads: Annotated[int, typer.Option(min=1, help="Threads on the CPU, for all.")] = 2,
    rounds: Annotated[int, typer.Option(min=1, help="How often everything is timed.")] = 15,
    feedback: Annotated[
        bool, typer.Option("--feedback/--no-feedback", help="Error feedback as declared, or none.")
    ] = True,
    json: Json = None,
    plot: Annotated[Optional[Path], typer.Option(metavar="FILE", help="Draw the figures.")] = None,
) -> None:
    """Time compressors: fresh gradients in every step, states as in training, all in turns with a copy and peers."""
    device = torch.device("cuda" if backend is Backend.cuda else "cpu")
    labels, compressors = _load(compressor or built_in_names(), backend.value, feedback)
    workloads = [parse_workload(text, device) for text in shapes or ["flat:16777216"]]
    if baselines() is None:
        print("plain torch is not compared with: its compressors are in the repository, not in the package")
    rows: list[Row] = []
    failed = False
    with _threads(threads), Console(stderr=True).status("compiling") as status:
        _compile(compressors, workloads)
        for workload in workloads:
            found = list(_measure(labels, compressors, workload, rounds, status))
            failed |= len(found) < len(compressors)
            rows += found
            _show(found, workload, f"{backend.value}, {threads} threads")
    write_json(json, {"threads": threads, "rounds": rounds, "rows": [row.as_json() for row in rows]})
    if plot and rows:
        draw(rows, plot)
    raise typer.Exit(1 if failed else 0)


def _load(texts: Sequence[str], backend: str, feedback: bool) -> tuple[list[str], list[compll.Compressor]]:
    requests = [parse_request(text) for text in texts]
    loaded = [compll.load(request.name, backend=backend, **request.params) for request in requests]
    return [r.label for r in requests], [c if feedback else c.with_feedback(False) for c in loaded]


@contextmanager
def _threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _compile(compressors: Sequence[compll.Compressor], workloads: Sequence[Workload]) -> None:
    """All kernels, several at a time."""
    grads = [torch.empty(shape, device=w.device) for w in workloads for shape in dict.fromkeys(w.shapes)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for done in [pool.submit(c.compile, grad) for c in compressors for grad in grads]:
            done.exception()  # told where it is measured, and there it does not keep others from being measured


def _measure(
    labels: Sequence[str], compressors: Sequence[compll.Compressor], workload: Workload, rounds: int, status: Status
) -> Iterator[Row]:
    """The rows of those that can be measured; the others are told about."""
    for label, compressor in zip(labels, compressors, strict=True):
        status.update(f"{label} at {workload.name}")
        try:
            row = measure(label, compressor, workload, rounds)
        except CompllError as problem:
            print(f"{label} at {workload.name} is not measured")
            show_error(problem)
            continue
        status.console.print(f"{label} at {workload.name}: {row.copies(row.encode.ms):.2f} C", highlight=False)
        yield row


def _show(rows: Sequence[Row], workload: Workload, how: str) -> None:
    count = f"{len(workload.shapes)} tensors, " if len(workload.shapes) > 1 else ""
    if rows:
        console().print(rows_table(rows, f"{workload.name}: {count}{workload.numel:,} elements, {how}"))
    if any(row.launch_bound for row in rows):
        console().print("launch-bound: so few elements that the cost of starting is measured, not that of memory")
