"""Rounds between ranks that fail: what one sends is always as long as what the others wait for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch

import compll
from compll.runtime.codec import Codec
from compll.runtime.following import Following
from compll.runtime.gradients import GradientSpec, Slice
from compll.runtime.options import ParameterSchedule
from compll.runtime.plan import Plan
from compll.runtime.scheduled import ScheduledCompressor
from compll.runtime.states import States
from compll.runtime.strategies import Context
from compll.runtime.tasks import Graph, Kind

SHAPE = torch.Size((30, 50))


@dataclass
class Alone:
    """One rank, whose sums are what it has; notes how many elements travelled."""

    rank: int = 0
    world_size: int = 1
    device: torch.device = torch.device("cpu")
    sent: list[int] = field(default_factory=list)

    def all_reduce(self, tensors: Sequence[torch.Tensor], done: Callable[[], None]) -> Any:
        self.sent += [tensor.numel() for tensor in tensors]

    def all_to_all(
        self, output: torch.Tensor, received: Sequence[int], source: torch.Tensor, sent: Sequence[int],
        done: Callable[[], None],
    ) -> Any:  # fmt: skip
        self.sent += sent
        output.copy_(source)


def opened(collectives: Any) -> Graph:
    """The tasks of a unit of one gradient."""
    spec = GradientSpec(name="first", index=0, shape=SHAPE, dtype=torch.float32, compressible=True)
    compressor = ScheduledCompressor(compll.load("powersgd", backend="reference", rank=2), ParameterSchedule({}))
    codec = Codec(
        own=compressor, passing=compressor, states=States(rollback=False), seed=0, rank=0, world_size=1, threads=1
    )
    plan = Plan.uniform({"first": True}, "rounds")
    following = Following(plan, [spec], Context(codec=codec, collectives=collectives), collectives.device)
    torch.manual_seed(0)
    (travel,) = following.routing.open(0, [Slice(spec=spec, tensor=torch.randn(SHAPE))], compressing=True)
    return travel.graph


def run(graph: Graph, computing: int) -> None:
    """All tasks that send; of those that compute only the first few, as an executor does once another unit failed."""
    for task in graph:
        if task.kind is Kind.SEND:
            task.work(lambda: None)
        elif task.kind is not Kind.RECV and computing > 0:
            task.work()
            computing -= 1


@pytest.mark.parametrize("computing", range(6))
def test_rounds_after_a_failure_elsewhere_have_the_length_that_others_wait_for(computing: int) -> None:
    whole, cut = Alone(), Alone()
    run(opened(whole), 9)
    run(opened(cut), computing)
    assert cut.sent == whole.sent and len({*whole.sent}) > 2
