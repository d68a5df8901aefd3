"""What happens next in one synchronised step: events in, instructions out. Pure: no torch, no clock, no thread.

A step has units: gradients that travel together, each a graph of tasks. Invariant: the order in which sends are issued
depends on the units and their graphs only, never on what completes first, so that all ranks issue the same collectives
in the same order. It is a wavefront: round r of unit u comes before round r' of u' where u + r < u' + r', and of two
with equal sums that of the later unit; so a unit's later rounds overlap with the first rounds of those that follow.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Union

from compll.runtime.tasks import Graph, Kind


@dataclass(frozen=True, slots=True)
class Opened:
    """The gradients of the next unit are there; units are counted from 0 in every step."""

    graph: Graph


@dataclass(frozen=True, slots=True)
class Closed:
    """The step has no further units."""


@dataclass(frozen=True, slots=True)
class Ended:
    """A task is over: it was run, or what it waited for has arrived."""

    unit: int
    task: int


Event = Union[Opened, Closed, Ended]


@dataclass(frozen=True, slots=True)
class Run:
    """Do the work of a task; ends in exactly one `Ended` for it, and for a send in one for the recv after it."""

    unit: int
    task: int


@dataclass(frozen=True, slots=True)
class Finish:
    """Settle the states and hand all buckets back."""


Instruction = Union[Run, Finish]


class Schedule:
    """The state of one step; after `Finish` it stands at the beginning of the next."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._graphs: list[Graph] = []
        self._sends_of: list[list[int]] = []  # by unit: the positions of its sends
        self._followers: list[dict[int, list[int]]] = []  # by unit: a task's successors
        self._waiting: list[dict[int, int]] = []  # unit -> task -> how many predecessors have not ended
        self._ready: set[tuple[int, int]] = set()
        self._outstanding = 0
        self._closed = False
        self._sends = self._send_order()
        self._send = next(self._sends, None)

    def handle(self, event: Event) -> None:
        match event:
            case Opened(graph):
                self._open(graph)
            case Closed():
                self._closed = True
            case Ended(unit, task):
                self._end(unit, task)
        if self._send is None:
            self._send = next(self._sends, None)

    def next(self) -> Instruction | None:
        """What to do now; None: wait for an event."""
        if self._send is not None and self._send in self._ready:
            instruction = Run(*self._send)
            self._send = next(self._sends, None)
        elif computing := [place for place in self._ready if self._kind(place).computes]:
            instruction = Run(*min(computing, key=self._urgency))
        elif self._closed and not self._outstanding:
            self._begin()
            return Finish()
        else:
            return None
        self._ready.remove((instruction.unit, instruction.task))
        return instruction

    def _open(self, graph: Graph) -> None:
        unit = len(self._graphs)
        self._graphs.append(graph)
        self._sends_of.append([position for position, task in enumerate(graph) if task.kind is Kind.SEND])
        self._followers.append({position: [] for position in range(len(graph))})
        for position, task in enumerate(graph):
            for before in task.after:
                self._followers[unit][before].append(position)
        self._waiting.append({position: len(task.after) for position, task in enumerate(graph)})
        self._outstanding += len(graph)
        self._ready |= {(unit, position) for position, task in enumerate(graph) if not task.after}

    def _end(self, unit: int, ended: int) -> None:
        self._outstanding -= 1
        self._ready.discard((unit, ended))  # a recv, which nobody runs
        for position in self._followers[unit][ended]:
            self._waiting[unit][position] -= 1
            if not self._waiting[unit][position]:
                self._ready.add((unit, position))

    def _kind(self, place: tuple[int, int]) -> Kind:
        return self._graphs[place[0]][place[1]].kind

    def _urgency(self, place: tuple[int, int]) -> tuple[bool, int, int]:
        """What others wait for comes first: whatever a send still follows."""
        unit, task = place
        last = not self._sends_of[unit] or self._sends_of[unit][-1] < task
        return last, unit, task

    def _send_order(self) -> Iterator[tuple[int, int] | None]:
        """The sends of this step in order; None as long as the unit that is next has not been opened."""
        diagonal = 0
        while not (self._closed and diagonal >= len(self._graphs) + self._most_rounds()):
            for unit in range(diagonal, -1, -1):
                while unit >= len(self._graphs) and not self._closed:
                    yield None
                if unit < len(self._graphs) and diagonal - unit < len(sends := self._sends_of[unit]):
                    yield unit, sends[diagonal - unit]
            diagonal += 1

    def _most_rounds(self) -> int:
        return max((len(sends) for sends in self._sends_of), default=0)
