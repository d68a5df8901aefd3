"""What a message does, counted by hand: decoders priced at the elements that they write, collectives at their bytes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from plan_models import COMPUTE, costs

from compll.runtime.plan import COMPRESSED, DENSE
from compll.runtime.planning.work import _WORKS, MOST_ROUNDS, Message, Work, bare_work, work

X, C = 1 << 20, 40_000


def done(strategy: str, ranks: int = 4, node_size: int = 1) -> Work:
    message = Message(strategy=strategy, elements=X, dense_bytes=4 * X, payload_bytes=C)
    return work(message, costs(ranks, node_size=node_size))


@pytest.mark.parametrize(
    ("strategy", "rounds"),
    [("dense", 1), ("dense-bf16", 1), ("allgather", 1), ("allreduce", 1), ("ps", 2), ("ring", 6), ("hierarchical", 3),
     ("rounds", 6)],
)  # fmt: skip
def test_number_of_rounds(strategy: str, rounds: int) -> None:
    assert len(done(strategy, node_size=2 if strategy == "hierarchical" else 1).rounds) == rounds


def test_dense_moves_all_bytes_and_bf16_half() -> None:
    net = costs(4).topology.everyone
    assert done("dense").wire == net.all_reduce(4 * X)
    assert done("dense-bf16").wire == net.all_reduce(2 * X)


def test_allgather_decodes_every_payload_at_full_size() -> None:
    assert done("allgather", ranks=8).finish == pytest.approx(COMPUTE.decode(X) + 7 * COMPUTE.decode_add(X))
    assert done("allreduce", ranks=8).finish == pytest.approx(COMPUTE.decode(X))


def test_ps_encodes_twice_and_sends_two_payloads() -> None:
    found, net = done("ps"), costs(4).topology.everyone
    share = X / 4
    merge = COMPUTE.decode(share) + 3 * COMPUTE.decode_add(share)
    assert found.compute == pytest.approx(COMPUTE.encode(X) + merge + COMPUTE.encode(share) + COMPUTE.decode(X))
    assert found.wire == pytest.approx(2 * net.all_to_all(C))


@pytest.mark.parametrize("ranks", [2, 3, 8, 40])
def test_ring_encodes_a_share_for_every_rank_and_hops_twice_around(ranks: int) -> None:
    found, net = done("ring", ranks), costs(ranks).topology.everyone
    share = X / ranks
    encodes = ranks * COMPUTE.encode(share) + (ranks - 1) * COMPUTE.decode_add(share)
    assert found.compute == pytest.approx(COMPUTE.copy(X) + encodes + COMPUTE.decode(X))
    assert found.wire == pytest.approx(2 * (ranks - 1) * net.shift(C / ranks))
    assert len(found.rounds) <= 2 * MOST_ROUNDS + 2


def test_hierarchical_sends_a_share_of_the_payload_across() -> None:
    topology = costs(8, node_size=4).topology
    found = done("hierarchical", 8, node_size=4)
    assert found.rounds[1].wire == pytest.approx(topology.across.all_gather(C / 4))
    assert found.rounds[0].wire == found.rounds[2].wire == pytest.approx(topology.inside.all_to_all(4 * X))


def test_rounds_share_the_payload_and_the_encoder() -> None:
    found, net = done("rounds"), costs(4).topology.everyone
    assert found.wire == pytest.approx(4 * net.all_to_all(C / 2) + 2 * net.all_reduce(8))
    assert found.compute == pytest.approx(COMPUTE.encode(X) + COMPUTE.decode(X))


def test_every_strategy_of_a_plan_has_a_price() -> None:
    assert _WORKS.keys() == {*DENSE, *COMPRESSED}


@pytest.mark.parametrize(("strategy", "tasks"), [("allgather", 3), ("ps", 5), ("ring", 2 * 2 * 19 + 1)])
def test_the_runtime_works_for_every_computation_and_collective(strategy: str, tasks: int) -> None:
    message = Message(strategy=strategy, elements=X, dense_bytes=4 * X, payload_bytes=C)
    with_tasks = replace(costs(20), compute=replace(COMPUTE, task=1.0))
    more = work(message, with_tasks).compute - bare_work(message, with_tasks).compute
    assert more == pytest.approx(tasks)


def test_more_gradients_in_a_message_cost_more() -> None:
    compute = replace(COMPUTE, encode_each=1.0, decode_each=0.1)
    message = Message(strategy="allgather", elements=X, dense_bytes=4 * X, payload_bytes=C, count=4)
    more = work(message, replace(costs(3), compute=compute)).compute - work(message, costs(3)).compute
    assert more == pytest.approx(3 * 1.0 + 3 * 3 * 0.1)


@pytest.mark.parametrize("strategy", [*DENSE, *COMPRESSED])
def test_alone_nothing_is_on_the_wire(strategy: str) -> None:
    assert done(strategy, ranks=1).wire == 0.0
