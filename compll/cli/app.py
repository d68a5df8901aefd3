"""The application: all commands, and how a failure ends the process.

Exit status: 0 ok, 1 a finding (any CompllError), 2 wrong usage. A traceback is shown for defects of compll only.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import typer

from compll.cli.bench import bench
from compll.cli.check import check
from compll.cli.compile import compile_program
from compll.cli.doctor import doctor
from compll.cli.explain import explain
from compll.cli.generate import generate
from compll.cli.output import show_error
from compll.cli.train import train
from compll.diagnostics import CompllError

app = typer.Typer(
    name="compll",
    help="Write a gradient compressor in a page; check it, read what it becomes, and train with it.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
COMMANDS = {
    "check": check,
    "compile": compile_program,
    "generate": generate,
    "explain": explain,
    "bench": bench,
    "train": train,
    "doctor": doctor,
}
for name, command in COMMANDS.items():
    app.command(name)(command)


def run(arguments: Sequence[str] | None = None) -> None:
    """Run one command and leave the process with its status."""
    try:
        app(args=arguments)
    except CompllError as problem:
        show_error(problem)
        sys.exit(1)
