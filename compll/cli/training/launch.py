"""Starts the workers, passes on what they report, and sees to it that none outlives the job."""

from __future__ import annotations

import signal
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Protocol

import torch.multiprocessing

from compll.cli.training.results import Failure
from compll.cli.training.worker import work
from compll.diagnostics import CompllError

#: How long after the first sign of a failure its cause may still arrive from another worker.
CAUSE_WITHIN_S = 1.0
END_WITHIN_S = 10.0


Body = Callable[[int, Any, Connection], None]


class Launched(Protocol):
    """A dataclass that workers are given; among its fields are how many there are, and the file at which they meet."""

    @property
    def workers(self) -> int: ...

    @property
    def store(self) -> str: ...

    def label(self, run: int) -> str:
        """What a worker does in its part `run`, for messages."""


def run_job(job: Launched, body: Body = work) -> Iterator[Any]:
    """What the workers report, in order, until all are done; `body` is what each of them runs.

    Raises CompllError when a worker fails; then, and when the caller stops early, all workers are ended first.
    """
    with tempfile.TemporaryDirectory(prefix="compll-train-") as folder:
        job = replace(job, store=str(Path(folder, "store")))
        with _workers(job, body) as (processes, pipes):
            yield from _events(job, processes, pipes)


@contextmanager
def _workers(job: Launched, body: Body) -> Iterator[tuple[list[BaseProcess], list[Connection]]]:
    context = torch.multiprocessing.get_context("spawn")
    processes: list[BaseProcess] = []
    pipes: list[Connection] = []
    try:
        for rank in range(job.workers):
            receiver, sender = context.Pipe(duplex=False)
            process = context.Process(target=body, args=(rank, job, sender), name=f"worker {rank}", daemon=True)
            process.start()
            sender.close()  # the worker holds the only writing end, so that its death is seen as the end of the pipe
            processes.append(process)
            pipes.append(receiver)
        yield processes, pipes
    finally:
        _end(processes)


def _end(processes: Sequence[BaseProcess]) -> None:
    for process in processes:
        process.terminate()
    for process in processes:
        process.join(END_WITHIN_S)
        if process.is_alive():
            process.kill()
            process.join()


def _events(job: Launched, processes: Sequence[BaseProcess], pipes: Sequence[Connection]) -> Iterator[Any]:
    open_pipes = list(pipes)
    while open_pipes:
        for pipe in wait(open_pipes):
            event = _receive(pipe)
            if isinstance(event, Failure):
                raise CompllError(_describe(job, processes, [event, *_late(open_pipes)]))
            if event is not None:
                yield event
                continue
            open_pipes.remove(pipe)
            process = processes[pipes.index(pipe)]
            process.join()
            if process.exitcode:
                raise CompllError(_describe(job, processes, _late(open_pipes)))


def _receive(pipe: Connection) -> Any:
    """The next event, or None at the end of the pipe."""
    try:
        return pipe.recv()
    except EOFError:
        return None


def _late(pipes: Sequence[Connection]) -> list[Failure]:
    """The failures that other workers still report: one that was killed makes all others fail too."""
    waiting, failures = list(pipes), []
    while ready := wait(waiting, CAUSE_WITHIN_S):
        for pipe in ready:
            event = _receive(pipe)
            if event is None:
                waiting.remove(pipe)
            elif isinstance(event, Failure):
                failures.append(event)
    return failures


def _describe(job: Launched, processes: Sequence[BaseProcess], failures: Sequence[Failure]) -> str:
    """What happened, in one line if a worker was killed, with the traceback of the first failure otherwise."""
    for rank, process in enumerate(processes):
        if process.exitcode is not None and process.exitcode < 0:
            name = signal.Signals(-process.exitcode).name
            return f"worker {rank} of {job.workers} was ended by {name}; the job is stopped"
    if not failures:
        codes = ", ".join(f"worker {rank}: {p.exitcode}" for rank, p in enumerate(processes) if p.exitcode)
        return f"workers ended without a word, with exit status {codes}; the job is stopped"
    first = failures[0]
    where = f"worker {first.rank} of {job.workers} failed in {job.label(first.run)}"
    return f"{where}: {first.error}\n\n{first.traceback.rstrip()}"
