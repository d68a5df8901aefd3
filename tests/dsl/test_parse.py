"""The grammar: precedence, soft keywords, positions, the tree's form, and texts that are no programs."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from dsl_sources import ALGORITHMS, source_of, wrapped
from hypothesis import given, settings
from hypothesis import strategies as st

from compll.diagnostics import CompllError, SourceFile
from compll.dsl import ast
from compll.dsl.check import check
from compll.dsl.facts import walk
from compll.dsl.parse import parse


def expression(text: str) -> ast.Expression:
    (statement,) = parse(wrapped(f"return {text};")).compressor.encode.body
    assert isinstance(statement, ast.Return)
    return statement.value


@pytest.mark.parametrize(
    ("text", "grouped"),
    [
        ("a + b * c", "a + (b * c)"),
        ("a - b - c", "(a - b) - c"),
        ("a % b / c", "(a % b) / c"),
        ("-a * b", "(-a) * b"),
        ("-a.b[c]", "-((a.b)[c])"),
        ("a << b + c", "a << (b + c)"),
        ("a & b << c", "a & (b << c)"),
        ("a ^ b & c", "a ^ (b & c)"),
        ("a | b ^ c", "a | (b ^ c)"),
        ("a & 1 == b", "(a & 1) == b"),
        ("a < b == c > d", "(a < b) == (c > d)"),
        ("a && b || c && d", "(a && b) || (c && d)"),
        ("!a && b", "(!a) && b"),
        ("a ? b : c ? d : e", "a ? b : (c ? d : e)"),
        ("a ? b ? c : d : e", "a ? (b ? c : d) : e"),
        ("a || b ? c : d + e", "(a || b) ? c : (d + e)"),
        ("f(|x, y| x | y)", "f(|x, y| (x | y))"),
        ("f(|x| x ? a : b)", "f(|x| (x ? a : b))"),
        ("uint<b + 1>(x) + c", "(uint<b + 1>(x)) + c"),
    ],
)
def test_precedence(text: str, grouped: str) -> None:
    assert expression(text) == expression(grouped)


def test_a_different_grouping_is_a_different_tree() -> None:
    assert expression("a - (b - c)") != expression("a - b - c")


def test_numbers() -> None:
    texts = ["7", "0x1F", "0b101", "1_000", ".5", "2.", "1e3", "2.5e-1", "inf"]
    numbers = [expression(text) for text in texts]
    assert [n.value for n in numbers] == [7, 31, 5, 1000, 0.5, 2, 1000, 0.25, float("inf")]
    assert [n.is_float for n in numbers] == [False] * 4 + [True] * 5


@pytest.mark.parametrize("word", ["size", "state", "step", "rank", "linear", "param", "repeat", "clear", "in", "fn"])
def test_keywords_are_names_where_no_keyword_is_expected(word: str) -> None:
    text = f"let {word} = g; {word} = {word} + f({word} = {word}); return {word};"
    body = parse(wrapped(text, f"param {word}: f32 = 1.0; state {word}: f32[{word}];")).compressor.encode.body
    assert [type(s) for s in body] == [ast.Let, ast.Assign, ast.Return]


@pytest.mark.parametrize("word", ["let", "return", "if", "else", "true", "false", "inf", "uint"])
@pytest.mark.parametrize("text", ["compressor {0} {{ {1} }}", "compressor t {{ param {0}: f32 = 1.0; {1} }}",
                                  "compressor t {{ payload {{ {0}: f32[n]; }} {1} }}"])
def test_reserved_words_name_nothing(text: str, word: str) -> None:
    with pytest.raises(CompllError, match=f"`{word}` is reserved and names nothing"):
        parse(SourceFile("t.cll", text.format(word, "encode(g: f32[n]) { return g; }")))


def test_casts_are_told_from_calls() -> None:
    assert isinstance(expression("u2(x)"), ast.Cast)
    assert isinstance(expression("uint<3>(x)"), ast.Cast)
    assert isinstance(expression("u2x(x)"), ast.Call)
    assert isinstance(expression("random.uniform(n)"), ast.Call)


def test_declarations_may_come_in_any_order() -> None:
    text = "compressor t { decode(p) -> f32[n] { return p.v; } encode(g: f32[n]) { return { v: g }; } %s }"
    payload, state = "payload { v: f32[n]; }", "state s: f32;"
    first = parse(SourceFile("t", text % f"{payload} {state}")).compressor
    assert first == parse(SourceFile("t", text % f"{state} {payload}")).compressor
    assert [field.name for field in first.payload] == ["v"]


def test_conditional_field_types() -> None:
    text = "compressor t { payload { v: u2[n] if a else u4[n] if b else u8[n]; } encode(g: f32[n]) {} }"
    (field,) = parse(SourceFile("t", text)).compressor.payload
    assert [condition and condition.span.text for condition, _ in field.alternatives] == ["a", "b", None]
    assert [type_.element.name for _, type_ in field.alternatives] == ["u2", "u4", "u8"]


def test_the_header_is_the_comment_lines_at_the_head() -> None:
    text = "// Top-k\n//\n//  indented\n\n//last\n" + wrapped("return g;").text + "// after\n"
    assert parse(SourceFile("t", text)).header == ("Top-k", "", " indented", "last")


def test_comments_and_line_ends_are_free() -> None:
    plain = parse(wrapped("return g + 1.0;")).compressor
    text = wrapped("return g + /* a\n b */ 1.0;").text
    assert parse(SourceFile("t", text)).compressor == plain
    assert parse(SourceFile("t", text.replace(" ", "\r\n"))).compressor == plain
    assert parse(SourceFile("t", text.replace(";", "; // end\n"))).compressor == plain


@pytest.mark.parametrize("path", ALGORITHMS, ids=lambda path: path.stem)
def test_every_span_lies_in_its_parent(path: Path) -> None:
    module = parse(source_of(path))
    for node in walk(module):
        assert node.span.start < node.span.end
        for child in list(walk(node))[1:]:
            assert node.span.start <= child.span.start <= child.span.end <= node.span.end


def test_names_span_their_own_text() -> None:
    for path in ALGORITHMS:
        for node in walk(parse(source_of(path))):
            if isinstance(node, ast.Name):
                assert node.span.text == node.name


# --- what is no program ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", " ", "// only a comment", "compressor", "\0", "compressor t {}}", "}{", "ﬁ"])
def test_no_program_is_one_diagnostic_with_a_place(text: str) -> None:
    with pytest.raises(CompllError) as caught:
        parse(SourceFile("t.cll", text))
    (problem,) = caught.value.diagnostics
    assert problem.code.startswith("E00") and problem.span is not None
    assert 0 <= problem.span.start <= problem.span.end <= max(1, len(text))


@pytest.mark.parametrize("opening", ["(", "-", "g[", "|x| ", "f(", "1 + (", "!", "true ? 1 : "])
@pytest.mark.parametrize("count", [60, 250, 2000])
def test_hostile_nesting_ends_in_a_diagnostic(opening: str, count: int) -> None:
    closing = {"(": ")", "g[": "]", "f(": ")", "1 + (": ")"}.get(opening, "")
    try:
        check(parse(wrapped(f"return {opening * count}g{closing * count};")))
    except CompllError as error:
        assert error.diagnostics


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_damaged_program_never_escapes_as_another_error(data: st.DataObject) -> None:
    """Words of a real program dropped, doubled, swapped or replaced: a tree or diagnostics, nothing else."""
    path = data.draw(st.sampled_from(ALGORITHMS))
    words = path.read_text(encoding="utf-8").replace("(", " ( ").replace(")", " ) ").replace(";", " ; ").split(" ")
    draw = random.Random(data.draw(st.integers(0, 2**32)))
    for _ in range(draw.randint(1, 4)):
        i, j = draw.randrange(len(words)), draw.randrange(len(words))
        words[i] = draw.choice(["", words[i] + " " + words[i], words[j], "(", "}", "0", "n", "u2", "|x|", "p", "1.5"])
    try:
        check(parse(SourceFile("t.cll", " ".join(words))))
    except CompllError as error:
        assert all(d.message for d in error.diagnostics)
