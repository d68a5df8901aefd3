"""The two lanes: by hand, and what must hold for any messages."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compll.runtime.planning.timeline import Arrival, run
from compll.runtime.planning.work import Round, Work

SECONDS = st.integers(0, 20).map(float)
WORKS = st.builds(
    Work, st.lists(st.builds(Round, SECONDS, SECONDS), min_size=1, max_size=5).map(tuple), SECONDS
)
FACTORS = st.sampled_from((1.0, 1.5, 2.0, 3.5))
MESSAGES = st.lists(st.builds(lambda ready, work: Arrival(ready=ready, work=work), SECONDS, WORKS), max_size=6)


def arrival(ready: float, *rounds: tuple[float, float], finish: float = 0.0) -> Arrival:
    return Arrival(ready=ready, work=Work(tuple(Round(*r) for r in rounds), finish))


def test_one_message_runs_through() -> None:
    trace = run([arrival(1, (2, 3), (4, 5), finish=6)])
    assert trace.compute == ((1, 3), (6, 10), (15, 21)) and trace.wire == ((3, 6), (10, 15)) and trace.end == 21


def test_encode_of_the_next_overlaps_the_wire_of_the_first() -> None:
    trace = run([arrival(0, (2, 10)), arrival(0, (2, 10))])
    assert trace.wire == ((2, 12), (12, 22)) and trace.end == 22


def test_the_last_decode_lets_encodes_go_first_where_that_ends_sooner() -> None:
    trace = run([arrival(0, (1, 1), finish=5), arrival(3, (1, 9), finish=1)])
    assert trace.end == 14  # encode at 3, wire until 13: the decode of the first fits behind


def test_second_rounds_wait_for_the_first_round_of_the_next() -> None:
    trace = run([arrival(0, (0, 1), (0, 1)), arrival(5, (0, 1), (0, 1))])
    assert trace.wire == ((0, 1), (5, 6), (6, 7), (7, 8))


def test_backward_and_the_thread_delay_each_other_on_one_core() -> None:
    trace = run([arrival(2, (2, 1), finish=3), arrival(6, (1, 1))], backward=6, sharing=2)
    assert trace.compute == ((2, 6), (8, 9), (9, 12), (12, 12))  # the first encode takes twice as long, then nothing
    assert trace.backward == 8 and trace.end == 12


def test_the_wire_is_slower_while_its_ranks_compute() -> None:
    assert run([arrival(1, (0, 5))], backward=5, crowding=2).wire == ((1, 8),)  # half as fast until 5
    assert run([arrival(1, (0, 1))], backward=5, crowding=2).wire == ((1, 3),)
    assert run([arrival(5, (0, 5))], backward=5, crowding=2).wire == ((5, 10),)


def test_a_slower_wire_does_not_pay_though_sharing_was_measured_as_more_than_taking_turns() -> None:
    ends = [run([arrival(0, (0, wire), finish=10)], backward=9, sharing=3.5).end for wire in (0, 4, 8, 12)]
    assert ends == [19, 19, 19, 22]


def test_backward_is_not_delayed_on_cores_of_its_own() -> None:
    assert run([arrival(2, (2, 1), finish=9)], backward=6).backward == 6


@settings(deadline=None)
@given(MESSAGES)
def test_lanes_do_one_thing_at_a_time_and_all_of_it(messages: list[Arrival]) -> None:
    trace = run(messages)
    for lane in (trace.compute, trace.wire):
        assert all(before[1] <= after[0] for before, after in zip(lane, lane[1:], strict=False))
    assert sum(stop - start for start, stop in trace.wire) == pytest.approx(sum(m.work.wire for m in messages))
    assert sum(stop - start for start, stop in trace.compute) == pytest.approx(sum(m.work.compute for m in messages))
    least = max((m.ready + m.work.compute + m.work.wire for m in messages), default=0.0)
    assert trace.end >= least - 1e-9


@settings(max_examples=200, deadline=None)
@given(MESSAGES, st.integers(0, 5), st.integers(0, 4), st.floats(0, 1), FACTORS, FACTORS)
def test_no_time_grows_when_a_wire_gets_faster(
    messages: list[Arrival], which: int, position: int, by: float, sharing: float, crowding: float
) -> None:
    if which >= len(messages):
        return
    message = messages[which]
    rounds = list(message.work.rounds)
    position %= len(rounds)
    rounds[position] = replace(rounds[position], wire=rounds[position].wire * by)
    faster = replace(message, work=Work(tuple(rounds), message.work.finish))
    after = run([*messages[:which], faster, *messages[which + 1 :]], 9.0, sharing, crowding)
    before = run(messages, 9.0, sharing, crowding)
    assert max(after.end, after.backward) <= max(before.end, before.backward) + 1e-9
