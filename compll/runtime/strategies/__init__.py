"""Ways to get from every rank's gradient to the mean: each an exchange that is started, completes and is merged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import torch

from compll.diagnostics import UnsupportedError
from compll.runtime.collectives import Collectives
from compll.runtime.compressor import Compressor
from compll.runtime.envelope import Verdict
from compll.runtime.gradients import GradientSpec
from compll.runtime.key import Key
from compll.runtime.strategies.allgather import AllGather
from compll.runtime.strategies.allreduce import AllReduce, reducible


class Exchange(Protocol):
    """The compressed gradients of one bucket in one step."""

    @property
    def payloads(self) -> Sequence[torch.Tensor]:
        """Where encode writes, zeroed, in bucket order."""

    @property
    def bytes_sent(self) -> int:
        """What this rank hands to the collectives, flags included."""

    def start(self, flags: Sequence[int], done: Callable[[], None]) -> None:
        """Start the collectives; `flags` are this rank's (envelope), one for each gradient."""

    def wait(self) -> None:
        """After `done`: make the results usable. Raises when a collective failed."""

    def merge(self, outs: Sequence[torch.Tensor], keys: Callable[[int], Sequence[Key]], threads: int) -> list[Verdict]:
        """Write the means over all ranks into `outs`; `keys` gives the gradients' keys of a rank."""


class Strategy(Protocol):
    """Makes exchanges; `bucket` names memory that may be used again in the next step."""

    def open(
        self, bucket: int, specs: Sequence[GradientSpec], compressor: Compressor, device: torch.device
    ) -> Exchange: ...


def choose_strategy(name: str, compressor: Compressor, collectives: Collectives) -> Strategy:
    """The strategy of an option's value. Raises UnsupportedError when the program's payloads do not add."""
    problem = reducible(compressor)
    if name == "allreduce" and problem:
        raise UnsupportedError(f"strategy='allreduce' needs payloads that add, but {problem}; use strategy='allgather'")
    return AllReduce(collectives) if name != "allgather" and not problem else AllGather(collectives)
