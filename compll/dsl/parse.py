"""Text to syntax tree: the only module that knows lark. No meaning is checked here.

`parse` raises CompllError with one diagnostic (codes E0001 to E0009) for a text that is no program; it never leaks an
error of the parser, and a hostile nesting does not reach the interpreter's stack.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

from lark import Lark, Token, Tree
from lark.exceptions import UnexpectedCharacters, UnexpectedToken
from lark.parsers.lalr_interactive_parser import InteractiveParser

from compll.diagnostics import CompllError, Diagnostic, SourceFile, Span
from compll.dsl import ast
from compll.dsl.build import BUILDERS, Word
from compll.dsl.limits import MAX_BRACKETS, MAX_DEPTH, MAX_TOKENS

_PAIRS = {"(": ")", "[": "]", "{": "}"}
#: Terminals that a message lists by themselves, in this order.
_PUNCTUATION = {
    "SEMICOLON": "`;`",
    "COLON": "`:`",
    "EQUAL": "`=`",
    "COMMA": "`,`",
    "RPAR": "`)`",
    "RSQB": "`]`",
    "RBRACE": "`}`",
    "LBRACE": "`{`",
    "LPAR": "`(`",
    "__ANON_0": "`->`",
}
_OPERATORS = frozenset(
    "OR AND EQ NE LT LE GT GE BAR CARET AMPERSAND SHL SHR PLUS MINUS STAR SLASH PERCENT QMARK DOT LSQB".split()
)


def parse(source: SourceFile) -> ast.Module:
    """The untyped tree of one file. Raises CompllError for a text that is not of the grammar."""
    tree = _tree(source)
    compressor: ast.Compressor = _build(source, tree)
    span = Span(source, 0, len(source.text))
    return ast.Module(span=span, header=tuple(_header(source.text)), compressor=compressor)


@cache
def _lark() -> Lark:
    grammar = Path(__file__).with_name("grammar.lark").read_text(encoding="utf-8")
    return Lark(grammar, parser="lalr", propagate_positions=True, maybe_placeholders=False)


def _header(text: str) -> Iterable[str]:
    for line in text.split("\n"):
        if not line.strip():
            continue
        if not line.startswith("//"):
            return
        yield line[2:].removeprefix(" ").rstrip()


# --- lark's tree, and its errors -------------------------------------------------------------------------------------


def _tree(source: SourceFile) -> Tree[Token]:
    interactive = _lark().parse_interactive(source.text)
    last: Token | None = None
    open_brackets: list[Token] = []
    try:
        for count, token in enumerate(interactive.iter_parse()):
            last = token
            if count >= MAX_TOKENS:
                span = _token_span(source, token)
                raise CompllError(Diagnostic(code="E0138", message=f"at most {MAX_TOKENS} words and signs", span=span))
            _count_bracket(source, token, open_brackets)
        tree: Tree[Token] = interactive.feed_eof(last)  # type: ignore[no-untyped-call]
        return tree
    except UnexpectedCharacters as problem:
        at = problem.pos_in_stream or 0
        _raise("E0002", f"no word or operator begins with {_shown(source, at)}", source, at, at + 1)
    except UnexpectedToken as problem:
        _unexpected(source, interactive, problem.token, last, open_brackets)


def _count_bracket(source: SourceFile, token: Token, opened: list[Token]) -> None:
    if token in _PAIRS:
        opened.append(token)
        if len(opened) > MAX_BRACKETS:
            _too_deep(_token_span(source, token), f"{MAX_BRACKETS} open brackets")
    elif opened and token in _PAIRS.values():
        opened.pop()


def _unexpected(
    source: SourceFile, parser: InteractiveParser, token: Token, last: Token | None, opened: list[Token]
) -> NoReturn:
    accepted: set[str] = parser.accepts()  # type: ignore[no-untyped-call]
    expected = _expectation(accepted)
    if token.type == "$END":
        where = f"`{opened[-1]}` of line {opened[-1].line} is still open" if opened else ""
        end = len(source.text.rstrip())
        _raise("E0003", f"the file ends where {expected} is expected", source, end, end, label=where)
    if "SEMICOLON" in accepted and last is not None and token.line != last.line:
        end = last.end_pos or 0
        _raise("E0001", f"expected {expected}, found the end of the line", source, end, end)
    start, end = token.start_pos or 0, token.end_pos or 0
    hint = "a comparison is written `==`" if token == "=" and "EQ" in accepted else ""
    if source.text.startswith("/*", start):
        hint = "a comment that begins with `/*` ends with `*/`"
    elif accepted == {"$END"}:
        hint = "one file holds one compressor"
    _raise("E0001", f"expected {expected}, found `{token}`", source, start, end, hint=hint)


def _expectation(accepted: set[str]) -> str:
    """What may follow, in words: the punctuation by itself, operands and operators by their kind."""
    words = [text for terminal, text in _PUNCTUATION.items() if terminal in accepted]
    if "LET" in accepted:
        words.insert(0, "a statement")
    elif "NUMBER" in accepted:
        words = ["an expression", *(word for word in words if word != "`(`")]
    elif "NAME" in accepted:
        words.insert(0, "a name")
    elif accepted.intersection(_OPERATORS):
        words = [*(word for word in words if word != "`(`"), *_keywords(accepted), "an operator"]
    else:
        words = [*_keywords(accepted), *words]
    if "$END" in accepted:
        words.append("the end of the file")
    return _listed(words)


def _keywords(accepted: set[str]) -> list[str]:
    """The keywords among terminals, by spelling."""
    spelled = {t.name: t.pattern.value for t in _lark().terminals if t.pattern.type == "str"}
    return sorted(f"`{spelled[name]}`" for name in accepted if spelled.get(name, "").isalpha())


def _listed(words: list[str]) -> str:
    return " or ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


def _shown(source: SourceFile, offset: int) -> str:
    character = source.text[offset]
    return f"`{character}`" if character.isprintable() else f"character U+{ord(character):04X}"


def _token_span(source: SourceFile, token: Token) -> Span:
    return Span(source, token.start_pos or 0, token.end_pos or 0)


def _too_deep(span: Span, limit: str) -> NoReturn:
    message = f"nested too deeply: at most {limit}"
    raise CompllError(Diagnostic(code="E0004", message=message, span=span, hint="name a part of it with `let`"))


def _raise(
    code: str, message: str, source: SourceFile, start: int, end: int, *, label: str = "", hint: str = ""
) -> NoReturn:
    raise CompllError(Diagnostic(code=code, message=message, span=Span(source, start, end), label=label, hint=hint))


# --- from lark's tree to ours, without recursion ---------------------------------------------------------------------


def _build(source: SourceFile, root: Tree[Token]) -> Any:
    """Builds the nodes bottom-up over an explicit stack."""
    pending: list[tuple[Tree[Token] | Token, int, bool]] = [(root, 0, False)]
    built: list[Any] = []
    while pending:
        item, depth, ready = pending.pop()
        if isinstance(item, Token):
            built.append(Word(str(item), _token_span(source, item)))
        elif ready:
            first = len(built) - len(item.children)
            children = built[first:]
            del built[first:]
            built.append(BUILDERS[item.data](_tree_span(source, item), children))
        else:
            if depth > MAX_DEPTH:
                _too_deep(_tree_span(source, item), f"{MAX_DEPTH} levels")
            pending.append((item, depth, True))
            pending += [(child, depth + 1, False) for child in reversed(item.children)]
    return built[0]


def _tree_span(source: SourceFile, tree: Tree[Token]) -> Span:
    meta = tree.meta
    if meta.empty:  # an empty list, such as the body of a block without statements, always has its brackets
        return Span(source, 0, 0)
    return Span(source, meta.start_pos, meta.end_pos)
