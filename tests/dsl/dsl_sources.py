"""Where the tests of the language find programs."""

from __future__ import annotations

from pathlib import Path

from compll.diagnostics import SourceFile

ROOT = Path(__file__).parents[2]
ALGORITHMS = sorted((ROOT / "algorithms").glob("*.cll"))


def source_of(path: Path) -> SourceFile:
    return SourceFile(path.name, path.read_text(encoding="utf-8"))


def wrapped(statements: str, declarations: str = "") -> SourceFile:
    """A compressor without payload around the statements of its encode."""
    return SourceFile("t.cll", f"compressor t {{ {declarations} encode(g: f32[n]) {{ {statements} }} }}")
