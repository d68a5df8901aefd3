"""Ways to get from every rank's gradient to the mean, by name; each lays out tasks for the schedule."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial

import torch

from compll.diagnostics import UnsupportedError
from compll.runtime.compressor import Compressor
from compll.runtime.plan import DENSE
from compll.runtime.sections import why_not_added
from compll.runtime.strategies.allgather import AllGather
from compll.runtime.strategies.allreduce import AllReduce
from compll.runtime.strategies.base import Context, StateSpec, Strategy, Unit
from compll.runtime.strategies.dense import Dense
from compll.runtime.strategies.hierarchical import Hierarchical
from compll.runtime.strategies.ps import ParameterServer
from compll.runtime.strategies.ring import Ring
from compll.runtime.strategies.rounds import InRounds

__all__ = ["STRATEGIES", "Context", "StateSpec", "Strategy", "Unit", "check_strategies", "default_strategy"]

STRATEGIES: Mapping[str, Callable[[Context], Strategy]] = {
    "allgather": AllGather,
    "allreduce": AllReduce,
    "ps": ParameterServer,
    "ring": Ring,
    "hierarchical": Hierarchical,
    "dense": Dense,
    "dense-bf16": partial(Dense, dtype=torch.bfloat16),
    "rounds": InRounds,
}


def default_strategy(compressor: Compressor) -> str:
    """What `strategy="auto"` means: all-reduce where payloads add, else all-gather; or the program's own rounds."""
    if compressor.reduces_inside:
        return "rounds"
    return "allgather" if why_not_added(compressor) else "allreduce"


def check_strategies(compressor: Compressor, used: Iterable[str]) -> None:
    """Raise UnsupportedError for a strategy that does not work with this program."""
    for strategy in set(used) - set(DENSE):
        if compressor.reduces_inside and strategy != "rounds":
            raise UnsupportedError(
                f"`{compressor.name}` reduces over the ranks inside encode, which strategy={strategy!r} cannot do; "
                "what works is strategy='rounds'"
            )
        if strategy == "rounds" and not compressor.reduces_inside:
            raise UnsupportedError(f"strategy 'rounds' needs collectives in encode, which `{compressor.name}` has not")
        problem = why_not_added(compressor) if strategy == "allreduce" else ""
        if problem:
            raise UnsupportedError(
                f"strategy='allreduce' needs payloads that add, but {problem}; use strategy='allgather'"
            )
