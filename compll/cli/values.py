"""Values as typed on the command line: numbers, words, schedules, shapes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Union

from compll.diagnostics import CompllError

Number = Union[int, float]
Value = Union[bool, int, float, str, Mapping[int, Number]]

_WHOLE = r"\d{1,18}"  # fits 64 bits
_NUMBER = r"[+-]?(?:\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?|inf)"
_SCHEDULE = re.compile(rf"{_NUMBER}(?:/{_WHOLE}:{_NUMBER})+")


def parse_params(items: Iterable[str], whose: str) -> dict[str, Value]:
    """Read `key=value` items; `whose` parameters they are is for messages. Raises CompllError on anything else.

    A value is `true`, `false`, a number, a schedule `0.25/100:0.01` (0.25 from the first step, 0.01 from step 100 on),
    or a word.
    """
    params: dict[str, Value] = {}
    for item in items:
        key, equals, value = item.partition("=")
        if not (key.isidentifier() and equals and value):
            raise CompllError(f"a parameter of {whose} needs the form key=value, got `{item}`")
        if key in params:
            raise CompllError(f"parameter `{key}` of {whose} is given twice")
        params[key] = parse_value(value)
    return params


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
    return int(text) if re.fullmatch(rf"[+-]?{_WHOLE}", text) else float(text)


def parse_shape(text: str) -> tuple[int, ...]:
    """`4096x1024`, `64x3x3x3` or `1000000`. Raises CompllError on anything else."""
    if not re.fullmatch(rf"{_WHOLE}(x{_WHOLE})*", text):
        raise CompllError(f"a shape needs the form ROWSxCOLS or N, got `{text}`")
    return tuple(int(extent) for extent in text.split("x"))
