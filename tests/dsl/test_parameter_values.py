"""Values of parameters at load time: defaults, conversion, ranges, names."""

from __future__ import annotations

import math

import numpy as np
import pytest

from compll.diagnostics import CompllError, SourceFile
from compll.dsl.check import check, parameter_values
from compll.dsl.parse import parse

TEXT = """compressor t {
    param ratio: f32 = 0.01 in (0, 1];
    param bits: i32 = 1 << 2 in [1, 8];
    param seed: u32 = 0xffffffff;
    param scale: bool = !false;
    param clip: f32 = inf;
    encode(g: f32[n]) { return scale ? g * ratio + f32(bits) + f32(seed) : g * clip; }
}"""
MODULE = check(parse(SourceFile("t.cll", TEXT)))[0]
DEFAULTS = {"ratio": 0.01, "bits": 4, "seed": 0xFFFFFFFF, "scale": True, "clip": math.inf}


def test_defaults_have_the_declared_types() -> None:
    values = parameter_values(MODULE, {})
    assert values == DEFAULTS and list(values) == list(DEFAULTS)
    assert [type(v) for v in values.values()] == [float, int, int, bool, float]


@pytest.mark.parametrize(
    ("name", "given", "value"),
    [
        ("ratio", 1, 1.0),
        ("ratio", "0.25", 0.25),
        ("ratio", np.float32(0.5), 0.5),
        ("bits", 8.0, 8),
        ("bits", np.int64(3), 3),
        ("bits", "0x5", 5),
        ("scale", "false", False),
        ("scale", np.bool_(False), False),
        ("clip", "inf", math.inf),
        ("clip", "2", 2.0),
    ],
)
def test_conversion(name: str, given: object, value: object) -> None:
    found = parameter_values(MODULE, {name: given})[name]
    assert found == value and type(found) is type(value)


@pytest.mark.parametrize(
    ("name", "given", "code", "text"),
    [
        ("ratio", 0, "E0123", "parameter `ratio` must lie in (0, 1], got 0.0"),
        ("ratio", 1.01, "E0123", "parameter `ratio` must lie in (0, 1], got 1.01"),
        ("bits", 9, "E0123", "parameter `bits` must lie in [1, 8], got 9"),
        ("bits", 2.5, "E0134", "parameter `bits` needs a whole number from -2147483648 to 2147483647, got 2.5"),
        ("bits", True, "E0134", "parameter `bits` needs a whole number from -2147483648 to 2147483647, got True"),
        ("seed", -1, "E0134", "parameter `seed` needs a whole number from 0 to 4294967295, got -1"),
        ("scale", 1, "E0134", "parameter `scale` needs true or false, got 1"),
        ("ratio", "much", "E0134", "parameter `ratio` needs an f32 number, got 'much'"),
        ("ratio", None, "E0134", "parameter `ratio` needs an f32 number, got None"),
        ("ratio", math.nan, "E0134", "parameter `ratio` needs an f32 number, got nan"),
        ("ratoi", 1, "E0133",
         "compressor `t` has no parameter `ratoi`; it has `ratio`, `bits`, `seed`, `scale`, `clip`"),
    ],
)  # fmt: skip
def test_refusals(name: str, given: object, code: str, text: str) -> None:
    with pytest.raises(CompllError) as caught:
        parameter_values(MODULE, {name: given})
    (problem,) = caught.value.diagnostics
    assert (problem.code, problem.message) == (code, text)


def test_all_refusals_at_once() -> None:
    with pytest.raises(CompllError) as caught:
        parameter_values(MODULE, {"ratoi": 1, "ratio": 7, "bits": 0})
    assert [d.code for d in caught.value.diagnostics] == ["E0133", "E0123", "E0123"]
    assert caught.value.diagnostics[0].hint == "did you mean `ratio`?"
