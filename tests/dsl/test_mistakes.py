"""Every kind of mistake, one program each: code, line, column and text as its first lines say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from compll.diagnostics import CompllError, Diagnostic, SourceFile, render
from compll.dsl.check import check
from compll.dsl.parse import parse

PROGRAMS = sorted((Path(__file__).parent / "errors").glob("*.cll"))
EXPECTATION = re.compile(r"//! ([EW]\d{4}) (\d+):(\d+) (.*)")


def diagnose(source: SourceFile) -> tuple[Diagnostic, ...]:
    try:
        return check(parse(source))[1]
    except CompllError as error:
        return error.diagnostics


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_the_mistake_is_reported_where_it_is(path: Path) -> None:
    source = SourceFile(path.name, path.read_text(encoding="utf-8"))
    expected = [(code, int(line), int(column), text) for code, line, column, text in EXPECTATION.findall(source.text)]
    found = [(d.code, d.span.line, d.span.column, d.message) for d in diagnose(source) if d.span is not None]
    assert expected and found == expected


def test_every_code_has_a_program() -> None:
    code = re.compile(r'"([EW]0[0-9]{3})"')
    folder = Path(__file__).parents[2] / "compll" / "dsl"
    raised = {c for path in folder.glob("*.py") for c in code.findall(path.read_text(encoding="utf-8"))}
    shown = {c for path in PROGRAMS for c, *_ in EXPECTATION.findall(path.read_text(encoding="utf-8"))}
    at_load = {"E0133", "E0134"}
    assert raised - at_load == shown


@pytest.mark.parametrize("text, hint", [
    ("g / n", "f32(n)"), ("count(g > 0.0) + n > 2 ? g : g", "u32(n)"), ("g[n]", "u32(n)"), ("g[n - 1]", "u32(n)"),
    ("n > count(g > 0.0) ? g : g", "u32(n)"),
])  # fmt: skip
def test_a_size_is_converted_to_what_is_needed_beside_it(text: str, hint: str) -> None:
    (problem,) = diagnose(SourceFile("c.cll", f"compressor c {{ encode(g: f32[n]) {{ return g * ({text}); }} }}"))
    assert problem.code == "E0117" and problem.hint == f"convert it: `{hint}`"


def test_a_rendered_error_shows_line_caret_and_hint() -> None:
    text = "compressor c {\n    payload { code: u2[n]; }\n    encode(g: f32[n]) { return { code: g }; }\n"
    text += "    decode(p) -> f32[n] { return f32(p.code); }\n}\n"
    (problem,) = diagnose(SourceFile("c.cll", text))
    assert render(problem) == "\n".join(
        [
            "c.cll:3:40: error[E0107]: field `code` needs u2[n], got f32[n]",
            "  |",
            "3 |     encode(g: f32[n]) { return { code: g }; }",
            "  |                                        ^ this field is u2[n]",
            "  |",
            "   = hint: round and convert first: `u2(floor(g))`",
        ]
    )
