"""Where a mistake is, what it is, and how it is shown. Knows neither the language nor the compiler.

Three classes of failure: `CompllError` (the user's mistake, or bad data), `UnsupportedError` (a known limit of
compll, named) and `InternalError` (a defect of compll itself).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class SourceFile:
    """The text of one program and the name under which messages speak of it."""

    path: str
    text: str

    def line_column(self, offset: int) -> tuple[int, int]:
        """The 1-based line and column of a character offset."""
        before = self.text[:offset]
        return before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1

    def line(self, number: int) -> str:
        """The text of a 1-based line, without its end; empty past the end of the file."""
        lines = self.text.split("\n")
        return lines[number - 1].rstrip("\r") if 0 < number <= len(lines) else ""


@dataclass(frozen=True, slots=True)
class Span:
    """The characters [start, end) of a source file."""

    source: SourceFile = field(repr=False)
    start: int
    end: int

    @property
    def line(self) -> int:
        return self.source.line_column(self.start)[0]

    @property
    def column(self) -> int:
        return self.source.line_column(self.start)[1]

    @property
    def text(self) -> str:
        return self.source.text[self.start : self.end]

    def to(self, other: Span) -> Span:
        """The smallest span that covers both."""
        return Span(self.source, min(self.start, other.start), max(self.end, other.end))


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnostic:
    """One message: needed then found, at most one hint. `severity` is "error" or "warning"."""

    code: str
    message: str
    span: Span | None
    label: str = ""
    hint: str = ""
    severity: str = "error"

    def headline(self) -> str:
        """`path:line:col: error[E0107]: message`, the line that tools read."""
        place = f"{self.span.source.path}:{self.span.line}:{self.span.column}: " if self.span else ""
        return f"{place}{self.severity}[{self.code}]: {self.message}"


def render(diagnostic: Diagnostic) -> str:
    """The headline, the source line with carets under the span, and the hint."""
    lines = [diagnostic.headline()]
    if diagnostic.span is not None:
        lines += _excerpt(diagnostic.span, diagnostic.label)
    if diagnostic.hint:
        lines.append(f"   = hint: {diagnostic.hint}")
    return "\n".join(lines)


def _excerpt(span: Span, label: str) -> list[str]:
    number, column = span.source.line_column(span.start)
    text = span.source.line(number)
    width = max(1, min(span.end - span.start, len(text) - column + 1))
    gutter = " " * len(str(number))
    indent = "".join("\t" if c == "\t" else " " for c in text[: column - 1])
    carets = f"{indent}{'^' * width} {label}".rstrip()
    return [f"{gutter} |", f"{number} | {text}", f"{gutter} | {carets}", f"{gutter} |"]


class CompllError(Exception):
    """The user's program or data is at fault; holds one or more diagnostics, or a plain message."""

    def __init__(self, problem: str | Diagnostic | Sequence[Diagnostic]):
        if isinstance(problem, str):
            problem = Diagnostic(code="E0000", message=problem, span=None)
        self.diagnostics = (problem,) if isinstance(problem, Diagnostic) else tuple(problem)
        super().__init__("\n".join(self._texts()))

    def _texts(self) -> Iterable[str]:
        for diagnostic in self.diagnostics:
            yield diagnostic.message if diagnostic.span is None else render(diagnostic)


class UnsupportedError(CompllError):
    """A legal wish that compll does not fulfil; the message says what does work."""


class InternalError(Exception):
    """A defect of compll itself, never the user's fault."""
