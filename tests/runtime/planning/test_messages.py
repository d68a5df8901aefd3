"""Which gradients travel together: what the runtime's routing does, as lists."""

from __future__ import annotations

import pytest
from plan_models import COMPUTE, costs, job, payload_bytes

from compll.runtime.plan import Route
from compll.runtime.planning.jobs import Gradient
from compll.runtime.planning.messages import bucket_messages, pool_messages
from compll.runtime.planning.prediction import Predictor


def gradient(name: str, rows: int = 8, compressible: bool = True) -> Gradient:
    return Gradient(name=name, shape=(rows, 1000), bucket=0, ready_s=0.0, compressible=compressible)


def payload(given: Gradient, parts: int) -> int:
    return payload_bytes(given.shape, given.dtype)


def test_one_message_for_each_strategy_and_each_part() -> None:
    routes = ["dense", "ps", "dense", "allgather", "ps"]
    gradients = [gradient(str(i)) for i in range(5)]
    found = bucket_messages(gradients, [Route(strategy=s, parts=2 if s == "allgather" else 1) for s in routes], payload)
    assert [(m.strategy, m.elements, m.count) for m in found] == [
        ("dense", 16000, 1), ("ps", 16000, 2), ("allgather", 4000, 1), ("allgather", 4000, 1)
    ]  # fmt: skip
    assert [m.payload_bytes for m in found] == [0, 2 * 640, 320, 320]


def test_what_cannot_be_compressed_is_pooled_at_the_end() -> None:
    gradients = [gradient(name, compressible=False) for name in "abc"]
    routes = {name: Route(strategy=s) for name, s in zip("abc", ("dense-bf16", "dense", "dense"), strict=True)}
    found = pool_messages(gradients, routes)
    assert [(m.strategy, m.elements, m.count) for m in found] == [("dense", 16000, 1), ("dense-bf16", 8000, 1)]


def test_plain_ddp_has_one_all_reduce_for_each_bucket() -> None:
    predictor = Predictor(job((64, 64), backward_s=0.0), costs(4, 1.0))
    elements = 64 * 1024 + 64
    wire = predictor.costs.topology.everyone.all_reduce(4 * elements)
    assert predictor.plain("dense").wire_s == pytest.approx(2 * wire)
    assert predictor.plain("dense").compute_s == pytest.approx(4 * COMPUTE.copy(elements))
    assert predictor.plain("dense-bf16").wire_s < 0.6 * predictor.plain("dense").wire_s
