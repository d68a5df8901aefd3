"""One wanted run, as typed on the command line: `NAME[:key=value,...]`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Union

from compll.diagnostics import CompllError

Number = Union[int, float]
Value = Union[bool, int, float, str, Mapping[int, Number]]

_NUMBER = r"[+-]?(?:\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?|inf)"
_SCHEDULE = re.compile(rf"{_NUMBER}(?:/\d+:{_NUMBER})+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A baseline, the name of a shipped program or a path, and its parameters and options."""

    name: str
    params: Mapping[str, Value]

    @property
    def label(self) -> str:
        """`name key=value ...`, for tables and plots."""
        return " ".join([self.name, *(f"{key}={show_value(value)}" for key, value in self.params.items())])


def parse_request(text: str) -> Request:
    """Read `NAME[:key=value,...]`.

    A value is `true`, `false`, a number, a schedule `0.25/100:0.01` (0.25 from the first step, 0.01 from step 100 on),
    or a word. Raises CompllError on anything else.
    """
    name, _, rest = text.partition(":")
    if not name:
        raise CompllError(f"a compressor needs a name before `:`, got `{text}`")
    params: dict[str, Value] = {}
    for item in rest.split(",") if rest else ():
        key, equals, value = item.partition("=")
        if not (key.isidentifier() and equals and value):
            raise CompllError(f"a parameter of `{name}` needs the form key=value, got `{item}`")
        if key in params:
            raise CompllError(f"parameter `{key}` of `{name}` is given twice")
        params[key] = parse_value(value)
    return Request(name=name, params=params)


def parse_value(text: str) -> Value:
    """The value of one parameter; a word that is nothing else stays a word."""
    if text in ("true", "false"):
        return text == "true"
    if _SCHEDULE.fullmatch(text):
        first, *later = text.split("/")
        steps = (piece.split(":") for piece in later)
        return {0: _number(first), **{int(step): _number(value) for step, value in steps}}
    return _number(text) if re.fullmatch(_NUMBER, text) else text


def show_value(value: Value) -> str:
    """The value as `parse_value` reads it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return "/".join(str(v) if step == 0 else f"{step}:{v}" for step, v in sorted(value.items()))
    return str(value)


def _number(text: str) -> Number:
    return int(text) if re.fullmatch(r"[+-]?\d+", text) else float(text)
