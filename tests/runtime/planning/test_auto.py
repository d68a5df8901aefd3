"""From samples to a plan."""

from __future__ import annotations

import subprocess
import sys

import pytest
from plan_models import COMPUTE, STRATEGIES, costs, job, payload_bytes

from compll.diagnostics import CompllError
from compll.runtime.planning.auto import decide
from compll.runtime.planning.prediction import Predictor
from compll.runtime.planning.samples import COMPUTATIONS, Sample, compute_costs, measured_topology
from compll.runtime.planning.search import search

SIZES = (1e3, 1e5, 1e6, 1e7)


def samples(gbit: float, names: tuple[str, ...] = ("all_reduce", "all_gather", "all_to_all", "shift")) -> list[Sample]:
    net = costs(4, gbit).topology.everyone
    found = [Sample(operation=n, size=x, seconds=getattr(COMPUTE, n)(x)) for n in COMPUTATIONS for x in SIZES]
    return found + [Sample(operation=n, size=x, seconds=getattr(net, n)(x)) for n in names for x in SIZES]


@pytest.mark.parametrize("gbit", [0.1, 400.0])
def test_samples_of_a_known_machine_give_its_plan(gbit: float) -> None:
    made = job()
    plan = decide(
        made.gradients, samples(gbit), backward_s=made.backward_s, world_size=4, strategies=STRATEGIES,
        payload_bytes=payload_bytes,
    )  # fmt: skip
    known = Predictor(made, costs(4, gbit))
    best = known.predict(search(known, STRATEGIES).routes).step_s
    assert known.predict(plan.routes).step_s == pytest.approx(best, rel=0.02)


def test_what_was_not_measured_is_not_compressed() -> None:
    network = [s for s in samples(0.1) if s.operation not in ("encode", "decode")]
    plan = decide(job().gradients, network, backward_s=0.02, world_size=4, payload_bytes=payload_bytes)
    assert not any(route.compressed for route in plan.routes.values())


def test_missing_operations_cost_what_their_likes_do() -> None:
    known = [Sample(operation=name, size=10, seconds=1.0) for name in ("decode", "copy")]
    found = compute_costs(known)
    assert found.decode_add == found.decode and found.cast == found.copy and found.encode(5) == 0.0


def test_nodes_that_were_not_measured_are_on_the_common_links() -> None:
    topology = measured_topology(samples(1.0, ("all_gather",)), 4, node_size=2)
    assert topology.across.shift(1e6) == pytest.approx(topology.everyone.shift(1e6), rel=1e-6)
    node = Sample(operation="all_to_all", size=1e6, seconds=1e-5, scope="node")
    measured = measured_topology([*samples(1.0, ("all_gather",)), node], 4, node_size=2)
    assert measured.inside.all_to_all(1e6) == pytest.approx(1e-5)


def test_no_collective_no_plan() -> None:
    with pytest.raises(CompllError, match="no collective of 4 ranks was measured"):
        decide(job().gradients, samples(1.0, ()), backward_s=0.02, world_size=4, payload_bytes=payload_bytes)


def test_unknown_operations_are_refused() -> None:
    with pytest.raises(CompllError, match="got `sort` of `all`"):
        Sample(operation="sort", size=1, seconds=1.0)


def test_deciding_needs_no_torch() -> None:
    code = "import sys, compll.runtime.planning.auto; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
