"""Sizes that have no value are refused with what was written."""

from __future__ import annotations

import pytest

from compll.diagnostics import CompllError
from compll.sizes import Num, Var, apply, evaluate


def test_a_power_that_is_not_real() -> None:
    constant = apply("pow", Num(-8), Num(0.5))
    with pytest.raises(CompllError, match="is no real number"):
        evaluate(constant, {})
    with pytest.raises(CompllError, match="has no value"):
        evaluate(apply("floor", apply("pow", Var("x"), Num(0.5))), {"x": -8.0})
