"""Time arithmetic of the statistics."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compll.runtime.stats import Interval, Span, StepClock, Totals, hidden_share, total
from compll.runtime.tasks import Kind

ticks = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=8)


@given(ticks, st.integers(0, 40))
def test_union_and_share_count_ticks(spans: list[tuple[int, int]], end: int) -> None:
    spans = [(min(s), max(s)) for s in spans]
    covered = {t for start, stop in spans for t in range(start, stop)}
    intervals = [Interval(float(a), float(b)) for a, b in spans]
    assert total(intervals) == len(covered)
    expected = len({t for t in covered if t < end}) / len(covered) if covered else 0.0
    assert hidden_share(intervals, float(end)) == pytest.approx(expected)


def test_a_units_time_is_shared_by_elements() -> None:
    totals = Totals()
    span = Span(kind=Kind.ENCODE, unit=0, strategy="allgather", start=1.0, end=5.0)
    totals.add(StepClock(spans=[(span, [("a", 30), ("b", 10)])], ready=[(3.0, ["b", "a"])]))
    assert totals.overlap == 0.5
    assert totals.gradient_ms("a", "encode") == pytest.approx(3000.0)
    assert totals.gradient_ms("b", "encode") == pytest.approx(1000.0)
