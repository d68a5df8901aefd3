"""Measuring: which operations, at which sizes, and what ranks agree on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pytest
import torch

import compll
from compll.diagnostics import CompllError
from compll.runtime.gradients import GradientSpec
from compll.runtime.planning.adapters import payload_size, planned, strategies_of
from compll.runtime.planning.auto import decide
from compll.runtime.planning.codec_probes import codec_samples
from compll.runtime.planning.group_probes import agreed
from compll.runtime.planning.links import COLLECTIVES
from compll.runtime.planning.probes import probe, sizes_up_to
from compll.runtime.planning.samples import COMPUTATIONS, Sample, compute_costs
from compll.runtime.planning.timing import WARM_UP, typical


@dataclass
class Twice:
    """Two equal ranks, one of which took twice as long."""

    rank: int = 0
    world_size: int = 2
    bytes_sent: int = 0

    def all_gather(self, output: torch.Tensor, source: torch.Tensor, done: Callable[[], None]) -> Twice:
        output.copy_(torch.cat([source, 2 * source if source.is_floating_point() else source]))
        return self

    def all_reduce(self, tensors: Sequence[torch.Tensor], done: Callable[[], None]) -> Twice:
        for tensor in tensors:
            tensor.mul_(2)
        return self

    def all_to_all(
        self, output: torch.Tensor, received: Sequence[int], source: torch.Tensor, sent: Sequence[int],
        done: Callable[[], None],
    ) -> Twice:  # fmt: skip
        assert sum(sent) == len(source) and sum(received) == len(output) and received == [sent[self.rank]] * 2
        return self

    def shift(self, output: torch.Tensor, source: torch.Tensor, done: Callable[[], None]) -> Twice:
        output.copy_(source)
        return self

    def wait(self) -> None: ...

    def close(self) -> None: ...


def test_runs_follow_each_other_without_a_rest() -> None:
    done = ""

    def note(letter: str) -> None:
        nonlocal done
        done += letter

    typical(lambda: note("w"), 2, before=lambda: note("b"), runs=3)
    assert done == "bw" * WARM_UP + "bwww" * 2


@pytest.mark.parametrize("name", ["topk", "onebit", "powersgd"])
def test_codecs_are_measured_at_every_size(name: str) -> None:
    found = list(codec_samples(compll.load(name), [1000, 5000], threads=1, repeats=1))
    operations = ("encode", "decode", "decode_add")
    sized = [(o, n) for n in (1000, 4096) for o in operations]
    assert [(s.operation, s.size) for s in found] == [*sized, ("encode_each", 1), ("decode_each", 1)]
    assert all(s.seconds >= 0 for s in found) and found[0].seconds > 0


def test_the_slowest_rank_counts() -> None:
    mine = [Sample(operation="encode", size=1, seconds=3.0), Sample(operation="shift", size=2, seconds=0.5)]
    assert [s.seconds for s in agreed(Twice(), mine)] == [6.0, 1.0]


def test_what_was_probed_is_enough_to_decide() -> None:
    compressor = compll.load("onebit")
    found = probe(compressor, {"all": Twice(), "node": Twice()}, largest=1 << 14, threads=1, repeats=1)
    singles = {"encode_each", "decode_each", "sharing", "crowding"}
    assert {s.operation for s in found} == {*COMPUTATIONS, *singles, *COLLECTIVES}
    assert {s.scope for s in found if s.operation in COLLECTIVES} == {"all", "node"}
    spec = GradientSpec(name="w", index=0, shape=torch.Size((64, 64)), dtype=torch.bfloat16, compressible=True)
    gradient = planned(spec, bucket=0, ready_s=0.1)
    assert gradient.shape == (64, 64) and gradient.dtype == "bfloat16"
    plan = decide(
        [gradient], found, backward_s=0.1, world_size=2, strategies=strategies_of(compressor),
        payload_bytes=payload_size(compressor),
    )  # fmt: skip
    plan.check_fits({"w": True})


def test_strategies_are_those_that_a_program_allows() -> None:
    anywhere = ("allgather", "ps", "ring", "hierarchical")
    assert strategies_of(compll.load("topk")) == anywhere
    assert set(strategies_of(compll.load("randomk"))) == {*anywhere, "allreduce"}
    assert strategies_of(compll.load("powersgd")) == ("rounds",)


def test_tasks_are_of_strategies() -> None:
    times = {"ps": 3.0, "ring": 1.0}
    found = compute_costs(Sample(operation="task", size=1, seconds=s, scope=name) for name, s in times.items())
    assert [found.task_of(name) for name in ("ps", "ring", "dense")] == [3.0, 1.0, 2.0]
    with pytest.raises(CompllError, match=r"of allgather, .*, got `task` of `all`"):
        Sample(operation="task", size=1, seconds=1.0)


def test_sizes_grow_to_the_largest() -> None:
    assert sizes_up_to(1 << 16) == (1 << 12, 1 << 14, 1 << 16) and sizes_up_to(5) == (1 << 12,)
