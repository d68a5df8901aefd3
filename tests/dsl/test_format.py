"""The canonical printer: what it prints parses to the same tree, for programs and for texts of the grammar."""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path

import pytest
from dsl_sources import ALGORITHMS, source_of, wrapped
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.extra.lark import from_lark
from lark import Lark

import compll.dsl.parse
from compll.diagnostics import CompllError, SourceFile, Span
from compll.dsl import ast
from compll.dsl.format import expression, format_module
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


# --- trees, printed and parsed ---------------------------------------------------------------------------------------

SPAN = Span(SourceFile("none", ""), 0, 0)
WORDS = st.sampled_from(["a", "n", "x_1", "size", "in", "state", "random", "topk"])
BINARY = st.sampled_from("|| && == != < <= > >= | ^ & << >> + - * / %".split())
ATOMS = st.one_of(
    st.builds(ast.Name, span=st.just(SPAN), name=WORDS),
    st.builds(ast.Boolean, span=st.just(SPAN), value=st.booleans()),
    st.builds(ast.Number, span=st.just(SPAN), value=st.integers(0, 2**53).map(float), is_float=st.just(False)),
    st.builds(ast.Number, span=st.just(SPAN), value=st.floats(0, 1e300) | st.just(math.inf), is_float=st.just(True)),
)


def _larger(inner: st.SearchStrategy[ast.Expression]) -> st.SearchStrategy[ast.Expression]:
    at = {"span": st.just(SPAN)}
    arguments = st.lists(st.builds(ast.Argument, **at, name=st.none() | WORDS, value=inner), max_size=3).map(tuple)
    names = st.lists(WORDS, min_size=1, max_size=2).map(tuple)
    elements = st.builds(ast.TypeName, **at, name=st.sampled_from(["f32", "u2", "bool"]))
    sized = st.builds(ast.TypeName, **at, name=st.just("uint"), width=inner)
    return st.one_of(
        st.builds(ast.Unary, **at, operator=st.sampled_from("-!~"), operand=inner),
        st.builds(ast.Binary, **at, operator=BINARY, left=inner, right=inner),
        st.builds(ast.Conditional, **at, condition=inner, then=inner, otherwise=inner),
        st.builds(ast.Member, **at, record=inner, name=WORDS),
        st.builds(ast.Element, **at, array=inner, index=inner),
        st.builds(ast.Call, **at, function=st.sampled_from(["map", "random.uniform", "f"]), arguments=arguments),
        st.builds(ast.Cast, **at, element=elements | sized, operand=inner),
        st.builds(ast.Lambda, **at, parameters=names, body=inner),
    )


@settings(max_examples=200, deadline=None)
@given(st.recursive(ATOMS, _larger, max_leaves=12))
def test_every_expression_parses_to_itself(tree: ast.Expression) -> None:
    (statement,) = parse(wrapped(f"return {expression(tree)};")).compressor.encode.body
    assert isinstance(statement, ast.Return) and statement.value == tree


# --- texts of the grammar --------------------------------------------------------------------------------------------


@cache
def texts() -> st.SearchStrategy[str]:
    lark = Lark(GRAMMAR, parser="lalr", start="start")
    return from_lark(lark, explicit={"NAME": NAMES, "NUMBER": NUMBERS, "COMMENT": st.just(" ")})


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate])
@given(st.data())
def test_texts_of_the_grammar_round_trip_or_say_why(data: st.DataObject) -> None:
    text = data.draw(texts())
    try:
        module = parse(SourceFile("t", text))
    except CompllError as error:
        assert error.diagnostics[0].code.startswith("E00")
    else:
        assert parse(SourceFile("t", format_module(module))) == module
