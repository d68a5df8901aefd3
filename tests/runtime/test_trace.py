"""Timelines in the Chrome trace format."""

import json

from compll.runtime.stats import Span, StepClock
from compll.runtime.tasks import Kind
from compll.runtime.trace import chrome_trace


def test_tasks_and_buckets_become_events() -> None:
    gradients = [("a", 30), ("b", 10)]
    spans = [
        (Span(kind=Kind.ENCODE, unit=0, strategy="ps", start=2.0, end=2.5), gradients),
        (Span(kind=Kind.SEND, unit=0, strategy="ps", start=2.5, end=2.6), gradients),
        (Span(kind=Kind.RECV, unit=0, strategy="ps", start=2.5, end=3.5), gradients),
    ]
    clock = StepClock(step=7, spans=spans, ready=[(1.0, ["b"]), (2.0, ["a"])])
    trace = json.loads(json.dumps(chrome_trace(3, [clock])))
    events = [e for e in trace["traceEvents"] if e["ph"] != "M"]
    assert [(e["ph"], e["name"]) for e in events] == [
        ("X", "backward b"), ("X", "backward a"), ("X", "encode a, b"), ("X", "send a, b"),
        ("b", "recv a, b"), ("e", "recv a, b"),
    ]  # fmt: skip
    assert {e["pid"] for e in trace["traceEvents"]} == {3}
    lengths = [round(e["dur"]) for e in events if e["ph"] == "X"]
    assert lengths == [0, 1_000_000, 500_000, 100_000]
    assert round(events[5]["ts"] - events[4]["ts"]) == 1_000_000 and events[4]["id"] == events[5]["id"]
    assert events[2]["args"] == {"step": 7, "unit": 0, "strategy": "ps", "gradients": ["a", "b"]}
