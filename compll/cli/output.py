"""What commands print and write: diagnostics, tables, JSON."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from compll.diagnostics import CompllError, Diagnostic, render

WIDTH_OF_A_PIPE = 200


def console() -> Console:
    """Standard output; a pipe or a file gets lines that are not folded."""
    return Console(width=None if sys.stdout.isatty() else WIDTH_OF_A_PIPE, highlight=False)


def show_error(problem: CompllError) -> None:
    """Every diagnostic on standard error, as it is."""
    for diagnostic in problem.diagnostics:
        text = diagnostic.message if diagnostic.span is None else render(diagnostic)
        print(f"error: {text}" if diagnostic.span is None else text, file=sys.stderr)


def show_warnings(warnings: Sequence[Diagnostic]) -> None:
    for warning in warnings:
        print(render(warning), file=sys.stderr)


def write_text(path: Path, text: str) -> Path:
    """Write a file, its folder too; returns the path. Raises CompllError when that cannot be done."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as problem:
        raise CompllError(f"cannot write `{path}`: {(problem.strerror or str(problem)).lower()}") from None
    return path


def write_json(path: Path | None, value: Any) -> None:
    """Write `value` where a path is given; numbers that JSON cannot say (inf, nan) become null."""
    if path is not None:
        write_text(path, json.dumps(_finite(value), indent=2, allow_nan=False) + "\n")


def _finite(value: Any) -> Any:
    match value:
        case float():
            return value if math.isfinite(value) else None
        case dict():
            return {key: _finite(item) for key, item in value.items()}
        case list() | tuple():
            return [_finite(item) for item in value]
        case _:
            return value
