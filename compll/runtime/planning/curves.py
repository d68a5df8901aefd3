"""What one operation costs as a function of its size, fitted to measured samples. Pure.

The form is max(floor, base + slope x): a constant as long as starting dominates, then a line. It is fitted in relative
errors, since sizes and times span several orders of magnitude and noise on a busy machine is proportional.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from compll.diagnostics import CompllError

#: A floor must explain the samples better than the plain line by so much in squared relative error to be believed.
WORTH_A_FLOOR = 0.8

Point = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """Seconds: max(floor, base + slope * size) for a size above 0, else 0. The unit of sizes is the caller's."""

    floor: float = 0.0
    base: float = 0.0
    slope: float = 0.0

    def __call__(self, size: float) -> float:
        return max(self.floor, self.base + self.slope * size) if size > 0 else 0.0


def fit(samples: Iterable[Point]) -> Curve:
    """The curve through samples of (size, seconds), sizes above 0; several of one size count as their median.

    One size alone gives a line through the origin. Never negative and never falling. Raises CompllError without
    samples, or for one that is no positive size with a time that is not negative.
    """
    points = _medians(samples)
    if len(points) == 1:
        size, seconds = points[0]
        return Curve(slope=seconds / size)
    best = _line(points)
    least = _error(best, points)
    for flat in range(2, len(points) - 1):
        level = statistics.median(seconds for _, seconds in points[:flat])
        line = _line(points[flat:])
        candidate = Curve(floor=level, base=line.base, slope=line.slope)
        if (error := _error(candidate, points)) < WORTH_A_FLOOR * least:
            best, least = candidate, error
    return best


def _medians(samples: Iterable[Point]) -> list[Point]:
    by_size: dict[float, list[float]] = {}
    for size, seconds in samples:
        if not (size > 0 and 0 <= seconds < math.inf):
            raise CompllError(f"a sample needs a size above 0 and a time of at least 0, got {size} and {seconds}")
        by_size.setdefault(size, []).append(seconds)
    if not by_size:
        raise CompllError("a curve needs at least one sample")
    return [(size, statistics.median(times)) for size, times in sorted(by_size.items())]


def _line(points: Sequence[Point]) -> Curve:
    """Weighted least squares; a slope below 0 becomes a constant, an intercept below 0 a line through the origin."""
    weights = [1 / max(seconds, 1e-12) ** 2 for _, seconds in points]
    total = sum(weights)
    mean_x = sum(w * x for w, (x, _) in zip(weights, points, strict=True)) / total
    mean_y = sum(w * y for w, (_, y) in zip(weights, points, strict=True)) / total
    spread = sum(w * (x - mean_x) ** 2 for w, (x, _) in zip(weights, points, strict=True))
    common = sum(w * (x - mean_x) * (y - mean_y) for w, (x, y) in zip(weights, points, strict=True))
    slope = max(0.0, common / spread) if spread > 0 else 0.0
    base = mean_y - slope * mean_x
    if base >= 0:
        return Curve(base=base, slope=slope)
    squares = sum(w * x * x for w, (x, _) in zip(weights, points, strict=True))
    return Curve(slope=sum(w * x * y for w, (x, y) in zip(weights, points, strict=True)) / squares)


def _error(curve: Curve, points: Sequence[Point]) -> float:
    return sum((curve(size) / max(seconds, 1e-12) - 1) ** 2 for size, seconds in points)
