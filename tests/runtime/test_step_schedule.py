"""The pure schedule of a step: whatever completes first, collectives start in bucket order."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compll import CompllError
from compll.runtime.schedule import (
    BucketReady,
    Decode,
    DenseReduced,
    Event,
    Exchange,
    Exchanged,
    Finish,
    Instruction,
    ReduceDense,
    Schedule,
    StoreDense,
)


def run_step(schedule: Schedule, buckets: int, pick: st.DataObject) -> list[Instruction]:
    """One step in which completions come in any order the generator likes, interleaved with buckets."""
    instructions: list[Instruction] = []
    pending: list[Event] = []
    ready = [BucketReady(i, i == buckets - 1) for i in range(buckets)]
    while ready or pending:
        position = pick.draw(st.integers(0, len(pending) if ready else len(pending) - 1))
        event = pending.pop(position) if position < len(pending) else ready.pop(0)
        for instruction in schedule.handle(event):
            instructions.append(instruction)
            if isinstance(instruction, Exchange):
                pending.append(Exchanged(instruction.bucket))
            if isinstance(instruction, ReduceDense):
                pending.append(DenseReduced())
    return instructions


@given(st.integers(1, 5), st.data())
def test_order_of_collectives_is_that_of_buckets(buckets: int, data: st.DataObject) -> None:
    schedule = Schedule()
    for _ in range(2):
        done = run_step(schedule, buckets, data)
        started = [i for i in done if isinstance(i, (Exchange, ReduceDense))]
        assert started == [*(Exchange(i) for i in range(buckets)), ReduceDense()]
        assert sorted(i.bucket for i in done if isinstance(i, Decode)) == list(range(buckets))
        assert done.count(StoreDense()) == 1
        assert done.count(Finish()) == 1 and done[-1] == Finish()


def test_a_step_that_did_not_finish_is_noticed() -> None:
    schedule = Schedule()
    schedule.handle(BucketReady(0, False))
    with pytest.raises(CompllError, match="bucket 0 came where 1 was due"):
        schedule.handle(BucketReady(0, False))
