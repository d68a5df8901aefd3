"""What one operation costs as a function of its size, fitted to measured samples. Pure.

The form is max(floor, base + slope x): a constant as long as starting dominates, then a line. What is minimised is the
sum of |log(predicted / measured)|: sizes and times span several orders of magnitude, noise on a busy machine is
proportional, and a single outlier must not bend the curve.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from compll.diagnostics import CompllError

#: Times below this are taken for it: no clock tells them from nothing.
LEAST_S = 1e-9

#: A floor must make the mean error smaller by this to be believed.
WORTH_A_FLOOR = 0.01

Point = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """Seconds: max(floor, base + slope * size) for a size above 0, else 0. The unit of sizes is the caller's.

    `base` is below 0 where what is large is dearer than in proportion: bursts, caches.
    """

    floor: float = 0.0
    base: float = 0.0
    slope: float = 0.0

    def __call__(self, size: float) -> float:
        return max(self.floor, self.base + self.slope * size) if size > 0 else 0.0

    @property
    def start(self) -> float:
        """Seconds of the smallest operation."""
        return max(self.floor, self.base)


def fit(samples: Iterable[Point]) -> Curve:
    """The curve through samples of (size, seconds), sizes above 0; several of one size count as their median.

    One size alone gives a line through the origin. Never negative and never falling. Raises CompllError without
    samples, or for one that is no positive size with a time that is not negative.
    """
    points = _medians(samples)
    return min(_candidates(points), key=lambda curve: _error(curve, points) + WORTH_A_FLOOR * (curve.floor > 0))


def _candidates(points: Sequence[Point]) -> Iterator[Curve]:
    """Without a floor: lines through the origin and one point, or through two; then with a point's time as floor."""
    lines = [Curve(slope=seconds / size) for size, seconds in points]
    for (x, at_x), (y, at_y) in combinations(points, 2):
        slope = max(0.0, (at_y - at_x) / (y - x))
        lines.append(Curve(base=at_y - slope * y, slope=slope))
    yield from (line for line in lines if line.base >= 0)
    for line in lines:
        yield from (Curve(floor=floor, base=line.base, slope=line.slope) for _, floor in points)


def _medians(samples: Iterable[Point]) -> list[Point]:
    by_size: dict[float, list[float]] = {}
    for size, seconds in samples:
        if not (size > 0 and 0 <= seconds < math.inf):
            raise CompllError(f"a sample needs a size above 0 and a time of at least 0, got {size} and {seconds}")
        by_size.setdefault(size, []).append(seconds)
    if not by_size:
        raise CompllError("a curve needs at least one sample")
    return [(size, statistics.median(times)) for size, times in sorted(by_size.items())]


def _error(curve: Curve, points: Sequence[Point]) -> float:
    logs = (abs(math.log(max(curve(size), LEAST_S) / max(seconds, LEAST_S))) for size, seconds in points)
    return sum(logs) / len(points)
