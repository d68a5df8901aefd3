"""Fits find the constants that the samples were made with, whatever the noise, and never say nonsense."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compll.diagnostics import CompllError
from compll.runtime.planning.curves import Curve, fit

SIZES = [4.0**i for i in range(3, 13)]


@pytest.mark.parametrize(
    "curve",
    [
        Curve(floor=3e-4, base=1e-5, slope=2e-9), Curve(base=5e-5, slope=1e-9), Curve(slope=1e-8),
        Curve(floor=1e-3, slope=1e-9), Curve(floor=4e-4, base=-2e-3, slope=8e-9),
    ],
)  # fmt: skip
def test_exact_samples_give_the_constants_back(curve: Curve) -> None:
    found = fit((size, curve(size)) for size in SIZES)
    assert found.slope == pytest.approx(curve.slope, rel=1e-6)
    assert found.base == pytest.approx(curve.base, rel=1e-6, abs=1e-9)
    assert found.floor == pytest.approx(curve.floor, rel=1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_noise_and_outliers_move_the_curve_little(seed: int) -> None:
    curve = Curve(floor=2e-4, base=2e-5, slope=3e-9)
    noise = random.Random(seed)
    samples = [(x, curve(x) * noise.uniform(0.95, 1.05)) for x in SIZES for _ in range(5)]
    samples += [(x, 20 * curve(x)) for x in SIZES]  # once for every size, something else had the machine
    found = fit(samples)
    assert all(found(x) == pytest.approx(curve(x), rel=0.15) for x in (100, 5e3, 1e5, 1e7))


def test_one_size_is_a_line_through_the_origin() -> None:
    assert fit([(100, 2.0), (100, 1.0), (100, 9.0)]) == Curve(slope=0.02)


def test_nothing_costs_nothing() -> None:
    assert Curve(floor=1.0, base=2.0, slope=3.0)(0) == 0.0


@pytest.mark.parametrize("samples", [[], [(0, 1.0)], [(1, -1.0)], [(1, float("inf"))], [(1, float("nan"))]])
def test_samples_that_mean_nothing_are_refused(samples: list[tuple[float, float]]) -> None:
    with pytest.raises(CompllError, match="sample"):
        fit(samples)


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(1, 10**9), st.floats(0, 1e3)), min_size=1, max_size=12))
def test_curves_are_never_negative_and_never_fall(samples: list[tuple[float, float]]) -> None:
    found = fit(samples)
    values = [found(x) for x in (1, 10, 1e4, 1e7, 1e10)]
    assert values[0] >= 0 and values == sorted(values)
