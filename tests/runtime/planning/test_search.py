"""Plans: which are found, and what must hold for any job and network."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plan_models import COMPUTE, STRATEGIES, costs, job

from compll.runtime.plan import Plan, Route
from compll.runtime.planning.curves import Curve
from compll.runtime.planning.explain import Reason, explain
from compll.runtime.planning.jobs import Job
from compll.runtime.planning.prediction import Predictor
from compll.runtime.planning.search import search, uniform_plans

JOBS = st.builds(
    lambda rows, columns, backward: job(tuple(rows), columns, backward),
    st.lists(st.integers(1, 600), min_size=1, max_size=4), st.sampled_from([8, 1024]), st.floats(0, 0.05),
)  # fmt: skip
NETWORKS = st.builds(costs, st.sampled_from([1, 2, 4, 16, 64]), st.sampled_from([0.1, 1.0, 10.0, 400.0]))
SLOW = settings(max_examples=25, deadline=None)


def strategies_of(plan: Plan) -> set[str]:
    return {route.strategy for name, route in plan.routes.items() if name.endswith("weight")}


def test_slow_links_compress_and_fast_links_do_not() -> None:
    assert strategies_of(search(Predictor(job(), costs(4, 0.1)), STRATEGIES)) <= set(STRATEGIES)
    assert strategies_of(search(Predictor(job(), costs(4, 400.0)), STRATEGIES)) <= {"dense", "dense-bf16"}


def test_nothing_is_compressed_when_encoding_takes_for_ever() -> None:
    slow = replace(COMPUTE, encode=Curve(slope=1e-5))
    plan = search(Predictor(job(), costs(4, 1.0, slow)), STRATEGIES)
    assert {r.strategy for r in plan.routes.values()} <= {"dense", "dense-bf16"}


def test_what_backward_hides_stays_dense() -> None:
    """All but the last bucket arrive early on a link that is fast enough for them: only the last one is compressed."""
    plan = search(Predictor(job((64, 64, 64, 4096), backward_s=2.0), costs(4, 1.0)), STRATEGIES)
    assert [plan.routes[f"{bucket}.weight"].strategy for bucket in range(3)] == ["dense"] * 3
    assert plan.routes["3.weight"].compressed


def test_a_single_rank_sends_nothing() -> None:
    plan = search(Predictor(job(), costs(1)), STRATEGIES)
    assert {route for route in plan.routes.values()} == {Route(strategy="dense")}


def test_many_ranks_leave_allgather_for_ps() -> None:
    assert strategies_of(search(Predictor(job(), costs(64, 0.1)), ("allgather", "ps"))) == {"ps"}


def test_hierarchical_wins_where_only_links_between_nodes_are_slow() -> None:
    predictor = Predictor(job(), costs(32, 1.0, node_size=8))
    steps = {u.strategy: u.found.step_s for u in uniform_plans(predictor, (*STRATEGIES, "hierarchical"))}
    assert min(steps, key=lambda name: steps[name]) == "hierarchical"


def test_large_gradients_alone_in_their_bucket_are_partitioned() -> None:
    """Encoding, wire and decoding of one large gradient overlap only in parts."""
    plan = search(Predictor(job((8192,), backward_s=0.001), costs(4, 1.0)), STRATEGIES)
    assert plan.routes["0.weight"].parts > 1


@SLOW
@given(JOBS, NETWORKS)
def test_never_worse_than_the_best_uniform_plan(some: Job, network: object) -> None:
    predictor = Predictor(some, network)  # type: ignore[arg-type]
    best = min(u.found.step_s for u in uniform_plans(predictor, STRATEGIES))
    plan = search(predictor, STRATEGIES)
    assert predictor.predict(plan.routes).step_s <= best
    plan.check_fits({g.name: g.compressible for g in some.gradients})


@SLOW
@given(JOBS, st.sampled_from([2, 4, 16]), st.floats(0.05, 100), st.floats(1, 10))
def test_uniform_plans_and_any_plan_gain_by_bandwidth(some: Job, ranks: int, gbit: float, times: float) -> None:
    slow, fast = Predictor(some, costs(ranks, gbit)), Predictor(some, costs(ranks, gbit * times))
    for before, after in zip(uniform_plans(slow, STRATEGIES), uniform_plans(fast, STRATEGIES), strict=True):
        assert after.found.step_s <= before.found.step_s
    routes = search(slow, STRATEGIES).routes
    assert fast.predict(routes).step_s <= slow.predict(routes).step_s


@SLOW
@given(JOBS, NETWORKS)
def test_equal_questions_get_equal_plans(some: Job, network: object) -> None:
    first, second = (search(Predictor(some, network), STRATEGIES) for _ in range(2))  # type: ignore[arg-type]
    assert first.to_json() == second.to_json() and list(first.routes) == list(second.routes)


@SLOW
@given(st.permutations(range(4)), st.sampled_from([0.1, 1.0, 10.0]))
def test_names_do_not_matter(order: list[int], gbit: float) -> None:
    """Equal gradients of one bucket may change names: the plan changes with them."""
    first = job((256,)).gradients[0]
    names = [f"{i}.weight" for i in range(4)]
    plain = Job(gradients=tuple(replace(first, name=name) for name in names), backward_s=0.02)
    permuted = Job(gradients=tuple(replace(first, name=names[i]) for i in order), backward_s=0.02)
    plans = [search(Predictor(some, costs(4, gbit)), STRATEGIES).routes for some in (plain, permuted)]
    assert dict(plans[0]) == dict(plans[1])


def test_predictions_say_what_is_exposed() -> None:
    predictor = Predictor(replace(job(), rest_s=0.5), costs(4, 0.1))
    dense = predictor.predict({g.name: Route(strategy="dense") for g in predictor.job.gradients})
    assert dense.step_s == pytest.approx(0.02 + dense.exposed_s + 0.5) and dense.exposed_s > 0.5
    assert 0 < dense.overlap < 0.1


def test_reasons_tell_the_other_ways() -> None:
    predictor = Predictor(job(), costs(4, 0.1))
    plan = search(predictor, STRATEGIES)
    reasons = list(explain(predictor, plan, STRATEGIES))
    assert [r.gradient.name for r in reasons] == [g.name for g in predictor.job.gradients]
    weight = next(r for r in reasons if r.gradient.name == "3.weight")
    assert weight.route == plan.routes["3.weight"] and {"dense", "dense-bf16", *STRATEGIES} == set(weight.steps)
    own = weight.steps[weight.route.strategy]
    assert own == predictor.predict(plan.routes).step_s and weight.steps["dense"] > own + 0.5
    assert set(reasons[1].steps) == {"dense", "dense-bf16"}


@pytest.mark.parametrize(
    ("other", "why"),
    [(1.25, "ps would take 250.000 ms longer"), (1.0, "ps would gain nothing"), (0.75, "ps would gain 250.000 ms")],
)
def test_reasons_in_words(other: float, why: str) -> None:
    steps = {"dense": 1.0, "ps": other, "ring": 2.0}
    gradient = job().gradients[0]
    reason = Reason(gradient=gradient, route=Route(strategy="dense"), steps=steps, compute_s=0.0, wire_s=0.0)
    assert reason.why.startswith(why) and reason.as_json()["step_ms"]["ring"] == 2000.0
