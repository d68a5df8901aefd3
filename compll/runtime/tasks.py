"""The five primitives as tasks with explicit predecessors; a strategy is nothing but a graph of them.

`encode`, `merge` and `decode` compute. A `send` starts a collective and is done at once; the `recv` after it ends when
the collective does, so that nothing waits in between.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any


class Kind(str, Enum):
    ENCODE = "encode"
    MERGE = "merge"
    DECODE = "decode"
    SEND = "send"
    RECV = "recv"

    @property
    def computes(self) -> bool:
        return self not in (Kind.SEND, Kind.RECV)


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """`after` has the positions, in its graph, of the tasks that must have ended.

    `work` takes nothing where the task computes. For a send it takes what to call when the collective is complete, and
    returns its handle (collectives.Handle). A recv has no work: it waits for the one send in `after`.
    """

    kind: Kind
    after: tuple[int, ...] = ()
    work: Callable[..., Any] = lambda: None


Graph = Sequence[Task]
Stage = tuple[tuple[Kind, Callable[..., Any]], ...]


def compute(kind: Kind, work: Callable[[], None]) -> Stage:
    return ((kind, work),)


def transfer(work: Callable[[Callable[[], None]], Any]) -> Stage:
    """A collective: its send and its recv."""
    return ((Kind.SEND, work), (Kind.RECV, lambda: None))


def chain(*stages: Stage) -> Graph:
    """The graph in which every task follows the one before."""
    steps = [step for stage in stages for step in stage]
    return tuple(
        Task(kind=kind, work=work, after=(position - 1,) if position else ())
        for position, (kind, work) in enumerate(steps)
    )
