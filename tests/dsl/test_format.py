"""The canonical printer: what it prints parses to the same tree, for programs and for texts of the grammar."""

from __future__ import annotations

from pathlib import Path

import pytest
from dsl_sources import ALGORITHMS, source_of
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.lark import from_lark
from lark import Lark

import compll.dsl.parse
from compll.diagnostics import CompllError, SourceFile
from compll.dsl.format import format_module
from compll.dsl.parse import parse

GRAMMAR = Path(compll.dsl.parse.__file__).with_name("grammar.lark").read_text(encoding="utf-8")
NAMES = st.sampled_from([" a ", " f32 ", " u2 ", " n ", " x_1 ", " topk ", " size ", " in "])
NUMBERS = st.sampled_from([" 0 ", " 7 ", " 0.5 ", " 1e-30 ", " 1e30 ", " 0x10 ", " 123456789012 "])


@pytest.mark.parametrize("path", ALGORITHMS, ids=lambda path: path.stem)
def test_algorithms_round_trip(path: Path) -> None:
    module = parse(source_of(path))
    text = format_module(module)
    assert parse(SourceFile("t", text)) == module
    assert format_module(parse(SourceFile("t", text))) == text


def test_the_canonical_form() -> None:
    text = "// head\ncompressor  c{encode(g:f32[n]){let x=-(1+2)*(3);return(x?g:0.0)+uint<(b)>(1);}"
    text += "param b:i32=4 in[1,8);}"
    assert format_module(parse(SourceFile("t", text))) == (
        "// head\n"
        "compressor c {\n"
        "    param b: i32 = 4 in [1, 8);\n"
        "\n"
        "    encode(g: f32[n]) {\n"
        "        let x = -(1 + 2) * 3;\n"
        "        return (x ? g : 0.0) + uint<b>(1);\n"
        "    }\n"
        "}\n"
    )


def _texts(start: str) -> st.SearchStrategy[str]:
    lark = Lark(GRAMMAR, parser="lalr", start=["start", "expression", "block"])
    ignored = {"COMMENT": st.just(" "), "__IGNORE_0": st.just(" "), "__IGNORE_1": st.just(" ")}
    known = {terminal.name for terminal in lark.terminals}
    explicit = {"NAME": NAMES, "NUMBER": NUMBERS, **{k: v for k, v in ignored.items() if k in known}}
    return from_lark(lark, start=start, explicit=explicit)


def _round_trips(text: str) -> None:
    try:
        module = parse(SourceFile("t", text))
    except CompllError:
        assume(False)
        return
    assert parse(SourceFile("t", format_module(module))) == module


SLOW = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))


@SLOW
@given(_texts("expression"))
def test_expressions_of_the_grammar_round_trip(text: str) -> None:
    _round_trips(f"compressor c {{ encode(g: f32[n]) {{ return {text}; }} }}")


@SLOW
@given(_texts("block"))
def test_blocks_of_the_grammar_round_trip(text: str) -> None:
    _round_trips(f"compressor c {{ encode(g: f32[n]) {text} }}")


@SLOW
@given(_texts("start"))
def test_files_of_the_grammar_parse_or_say_why(text: str) -> None:
    _round_trips(text)
