"""The pure schedule of a step: whatever completes first, sends are issued in the plan's order."""

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from compll.runtime.schedule import Closed, Ended, Finish, Opened, Run, Schedule
from compll.runtime.tasks import Graph, Kind, Task, chain, compute, transfer


def rounds(count: int) -> Graph:
    """encode, then `count` transfers with work between them, then decode: what strategies lay out."""
    stages = [compute(Kind.ENCODE, lambda: None)]
    for _ in range(count):
        stages += [transfer(lambda done: None), compute(Kind.MERGE, lambda: None)]
    return chain(*stages)


def wavefront(counts: list[int]) -> list[tuple[int, int]]:
    """(unit, round) in the order that is promised, worked out another way."""
    places = [(unit, turn) for unit, count in enumerate(counts) for turn in range(count)]
    return sorted(places, key=lambda place: (sum(place), -place[0]))


class Step(RuleBasedStateMachine):
    """Units are opened, collectives complete and tasks are run in whatever order comes up."""

    def __init__(self) -> None:
        super().__init__()
        self.schedule = Schedule()
        self.begin()

    def begin(self) -> None:
        self.graphs: list[Graph] = []
        self.sent: list[tuple[int, int]] = []
        self.on_the_way: list[tuple[int, int]] = []
        self.ended: set[tuple[int, int]] = set()
        self.closed = False

    @precondition(lambda self: not self.closed and len(self.graphs) < 5)
    @rule(count=st.integers(0, 4))
    def open(self, count: int) -> None:
        self.graphs.append(rounds(count))
        self.schedule.handle(Opened(self.graphs[-1]))

    @precondition(lambda self: not self.closed and self.graphs)
    @rule()
    def close(self) -> None:
        self.closed = True
        self.schedule.handle(Closed())

    @precondition(lambda self: self.on_the_way)
    @rule(data=st.data())
    def arrive(self, data: st.DataObject) -> None:
        place = self.on_the_way.pop(data.draw(st.integers(0, len(self.on_the_way) - 1)))
        self.end(*place)

    @rule()
    def run(self) -> None:
        match self.schedule.next():
            case Run(unit, task):
                work = self.graphs[unit][task]
                assert all((unit, before) in self.ended for before in work.after)
                assert (unit, task) not in self.ended
                if work.kind is Kind.SEND:
                    self.sent.append((unit, sum(t.kind is Kind.SEND for t in self.graphs[unit][:task])))
                    self.on_the_way.append((unit, task + 1))
                self.end(unit, task)
            case Finish():
                assert self.closed and len(self.ended) == sum(map(len, self.graphs))
                assert self.sent == wavefront([sum(t.kind is Kind.SEND for t in g) for g in self.graphs])
                self.begin()

    def end(self, unit: int, task: int) -> None:
        self.ended.add((unit, task))
        self.schedule.handle(Ended(unit, task))

    @invariant()
    def sends_follow_the_wavefront(self) -> None:
        counts = [sum(t.kind is Kind.SEND for t in g) for g in self.graphs]
        unknown = [] if self.closed else [9] * 6  # units that may still come
        assert self.sent == wavefront(counts + unknown)[: len(self.sent)]

    def teardown(self) -> None:
        """Whatever the state, the step comes to its end once all its units are there."""
        if not self.graphs:
            return
        if not self.closed:
            self.close()
        for _ in range(200):
            if not self.graphs:
                return
            self.run()
            if self.on_the_way:
                self.end(*self.on_the_way.pop())
        raise AssertionError("the step did not finish")


def test_any_order_of_events() -> None:
    run_state_machine_as_test(Step)


def drain(schedule: Schedule) -> list[object]:
    """What can run now, in order; recvs stay out."""
    done: list[object] = []
    while (instruction := schedule.next()) is not None:
        done.append(instruction)
        if isinstance(instruction, Run):
            schedule.handle(Ended(instruction.unit, instruction.task))
    return done


def test_two_units_of_two_rounds_as_lists() -> None:
    schedule = Schedule()
    schedule.handle(Opened(rounds(2)))  # encode 0, send 1, recv 2, merge 3, send 4, recv 5, merge 6
    assert drain(schedule) == [Run(0, 0), Run(0, 1)]
    schedule.handle(Ended(0, 2))
    assert drain(schedule) == [Run(0, 3)], "its second send waits for the first of the unit to come"
    schedule.handle(Opened(rounds(2)))
    assert drain(schedule) == [Run(1, 0), Run(1, 1), Run(0, 4)]
    schedule.handle(Ended(0, 5))
    schedule.handle(Ended(1, 2))
    assert drain(schedule) == [Run(1, 3), Run(0, 6)], "what a send follows comes before what none does"
    schedule.handle(Closed())
    assert drain(schedule) == [Run(1, 4)]
    schedule.handle(Ended(1, 5))
    assert drain(schedule) == [Run(1, 6), Finish()]


@given(st.permutations(range(4)))
def test_a_graph_need_not_be_a_chain(order: list[int]) -> None:
    """A task runs when all its predecessors have ended, in whatever order they do."""
    split = [Task(kind=Kind.SEND, work=lambda done: None)] * 4
    arrivals = [Task(kind=Kind.RECV, after=(send,)) for send in range(4)]
    schedule = Schedule()
    schedule.handle(Opened((*split, *arrivals, Task(kind=Kind.MERGE, after=(4, 5, 6, 7)))))
    schedule.handle(Closed())
    assert drain(schedule) == [Run(0, send) for send in range(4)]
    for send in order:
        assert schedule.next() is None
        schedule.handle(Ended(0, 4 + send))
    assert drain(schedule) == [Run(0, 8), Finish()]
