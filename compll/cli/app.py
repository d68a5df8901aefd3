"""The application: all commands, and how a failure ends the process.

Exit status: 0 ok, 1 a finding (any CompllError), 2 wrong usage. A traceback is shown for defects of compll only.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from importlib import import_module

import typer

from compll.cli.output import show_error
from compll.diagnostics import CompllError

#: Where each command is. Only the one that is asked for is imported: some bring in libraries that take seconds to load.
COMMANDS = {
    "check": "compll.cli.check:check",
    "compile": "compll.cli.compile:compile_program",
    "generate": "compll.cli.generate:generate",
    "explain": "compll.cli.explain:explain",
    "bench": "compll.cli.bench:bench",
    "train": "compll.cli.train:train",
    "profile": "compll.cli.profile:profile",
    "plan": "compll.cli.plan:plan",
    "simulate": "compll.cli.simulate:simulate",
    "trace": "compll.cli.trace:trace",
    "doctor": "compll.cli.doctor:doctor",
}


def run(arguments: Sequence[str] | None = None) -> None:
    """Run one command and leave the process with its status."""
    arguments = sys.argv[1:] if arguments is None else arguments
    named = [name for name in arguments[:1] if name in COMMANDS]
    try:
        application(named or COMMANDS)(args=list(arguments), prog_name="compll")
    except CompllError as problem:
        show_error(problem)
        sys.exit(1)


def application(names: Iterable[str]) -> typer.Typer:
    """A typer application with these commands."""
    app = typer.Typer(
        name="compll", no_args_is_help=True, add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False
    )
    app.callback()(about)
    for name in names:
        module, _, function = COMMANDS[name].partition(":")
        app.command(name)(getattr(import_module(module), function))
    return app


def about() -> None:
    """Write a gradient compressor in a page; check it, read what it becomes, and train with it."""
