"""Tokens of the IR's text form, and the few things made of nothing else: sizes, types and attributes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import NoReturn, TypeVar

from compll import dtypes
from compll.codegen import ir
from compll.diagnostics import CompllError
from compll.dtypes import DType
from compll.sizes import Apply, Num, Size, Var

T = TypeVar("T")

_TOKEN = re.compile(
    r"(?P<space>[ \t]+)|(?P<end>\n)|(?P<comment>//[^\n]*)|(?P<string>\"[^\"\n]*\")"
    r"|(?P<number>-?\d+(?:\.\d*)?(?:e[+-]?\d+)?|-inf\b)|(?P<name>[A-Za-z_]\w*)|(?P<value>%\w+)"
    r"|(?P<symbol>=>|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%<>=(){}\[\],:;])"
)
_INFIX = {
    "+": "add", "-": "sub", "*": "mul", "/": "div", "%": "rem", "<<": "shl", ">>": "shr", "<": "lt", "<=": "le",
    ">": "gt", ">=": "ge", "==": "eq", "!=": "ne", "&&": "and", "||": "or",
}  # fmt: skip
_KINDS = {
    "name": "a name", "value": "a value", "number": "a number", "string": "a string", "symbol": "an operator",
    "end": "the end of the line", "end of text": "the end of the text", "comment": "a comment",
}  # fmt: skip
_DTYPES = dtypes.NAMED | {d.name: d for d in (dtypes.F64, dtypes.I64, dtypes.U64)}


class Tokens:
    """A cursor over (kind, text); blank lines and lines of comment only are skipped, other comments are kept."""

    def __init__(self, text: str) -> None:
        self.tokens: list[tuple[str, str, int]] = []
        self.at = 0
        for number, line in enumerate(text.split("\n"), 1):
            found = [(str(m.lastgroup), m.group(), number) for m in self._line(line, number)]
            if found and found[0][0] != "comment":
                self.tokens += [*found, ("end", "end of line", number)]
        self.tokens.append(("end of text", "end of text", text.count("\n") + 1))

    def _line(self, line: str, number: int) -> list[re.Match[str]]:
        matches, at = [], 0
        while at < len(line):
            match = _TOKEN.match(line, at)
            if match is None:
                raise CompllError(f"line {number}: `{line[at]}` is no part of the text form")
            at = match.end()
            if match.lastgroup != "space":
                matches.append(match)
        return matches

    def peek(self) -> str:
        return self.tokens[self.at][1]

    def kind(self) -> str:
        return self.tokens[self.at][0]

    def take(self, kind: str) -> str:
        found, text, _ = self.tokens[self.at]
        if found != kind:
            self.fail(_KINDS[kind])
        self.at += 1
        return text

    def word(self, needed: str, allowed: Iterable[str]) -> str:
        """One of the allowed words."""
        if self.peek() not in allowed:
            self.fail(needed)
        return self.take("name")

    def expect(self, *texts: str) -> None:
        for text in texts:
            if self.peek() != text:
                self.fail(f"`{text}`")
            self.at += 1

    def accept(self, *texts: str) -> bool:
        """Take these tokens if they all come next."""
        if [t[1] for t in self.tokens[self.at : self.at + len(texts)]] != list(texts):
            return False
        self.at += len(texts)
        return True

    def end(self) -> str:
        """The end of a line; what its comment says."""
        comment = self.take("comment")[2:].strip() if self.kind() == "comment" else ""
        self.take("end")
        return comment

    def listed(self, item: Callable[[], T]) -> tuple[T, ...]:
        items = [item()]
        while self.accept(","):
            items.append(item())
        return tuple(items)

    def fail(self, needed: str) -> NoReturn:
        _, found, line = self.tokens[self.at]
        raise CompllError(f"line {line}: needs {needed}, got `{found}`")

    def size(self) -> Size:
        """A size as `str` writes it: infix operations always in parentheses."""
        match self.kind():
            case "number":
                return Num(float(self.take("number")))
            case "name":
                name = self.take("name")
                if not self.accept("("):
                    return Num(float(name)) if name == "inf" else Var(name)
                arguments = self.listed(self.size)
                self.expect(")")
                return Apply(name, arguments)
        self.expect("(")
        left = self.size()
        operation = _INFIX.get(self.peek()) or self.fail("an operator")
        self.take("symbol")
        right = self.size()
        self.expect(")")
        return Apply(operation, (left, right))

    def attribute(self) -> ir.Attribute:
        """A size in brackets, a word in quotes, a truth value, or a number (a float by its point or exponent)."""
        if self.accept("["):
            size = self.size()
            self.expect("]")
            return size
        if self.kind() == "string":
            return self.take("string")[1:-1]
        if self.kind() == "number":
            return self.number()
        word = self.word("an attribute", ("true", "false", "inf", "nan"))
        return float(word) if word in ("inf", "nan") else word == "true"

    def number(self) -> int | float:
        text = self.take("number")
        return float(text) if set(text) & set(".en") else int(text)

    def dtype(self) -> DType:
        return _DTYPES[self.word("an element type", _DTYPES)]

    def type(self) -> tuple[DType, tuple[Size, ...], str | None]:
        """`u32[k; %count]`: element type, shape, the name of the count."""
        dtype = self.dtype()
        if not self.accept("["):
            return dtype, (), None
        shape, count = self.extents()
        return dtype, shape, count

    def extents(self) -> tuple[tuple[Size, ...], str | None]:
        """The rest of `[rows, k]` or `[limit; %count]` after the bracket."""
        shape = () if self.peek() in ("]", ";") else self.listed(self.size)
        count = self.take("value")[1:] if self.accept(";") else None
        self.expect("]")
        return shape, count
