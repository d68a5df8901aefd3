"""The command line: one short module for each command, put together in `app`."""

from __future__ import annotations

from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command and leave the process with its status."""
    # the worker processes of `train` import the module that started the program again: it has to stay light
    from compll.cli.app import run

    run(arguments)
