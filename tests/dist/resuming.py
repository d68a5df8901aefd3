"""Saving and loading what a SyncState keeps."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from harness import BACKEND, Given, Ranks, backward, draw, equal, given_model, parameters, wanted
from replicas import network

import compll
from compll import CompllError, SyncState


def through_a_file(saved: dict[str, Any]) -> dict[str, Any]:
    path = Path(tempfile.mkdtemp()) / "state.pt"
    torch.save(saved, path)
    loaded: dict[str, Any] = torch.load(path, weights_only=True)
    return loaded


def resumed_equals_uninterrupted(ranks: Ranks) -> None:
    for name in ("topk", "dgc", "terngrad", "onebit"):
        ddp = ranks.ddp(given_model())
        sync = compll.attach(ddp, name, backend=BACKEND, seed=5)
        for step in range(2):
            backward(ddp, wanted(ranks.rank, step))
        saved = through_a_file(sync.state_dict())
        uninterrupted = [backward(ddp, wanted(ranks.rank, step)) for step in (2, 3)]
        again = ranks.ddp(given_model())
        resumed = compll.attach(again, name, backend=BACKEND, seed=5)
        resumed.load_state_dict(saved)
        assert resumed.step == 2
        for step, expected in zip((2, 3), uninterrupted):
            got = backward(again, wanted(ranks.rank, step))
            assert all(torch.equal(got[n], expected[n]) for n in ("first", "conv", "last")), name


@dataclass
class Run:
    """A training with a convolution, momentum and a scaler, in several buckets."""

    ranks: Ranks
    arguments: Mapping[str, Any]

    def __post_init__(self) -> None:
        self.ddp = self.ranks.ddp(network(), bucket_cap_mb=0.02)
        self.sync = compll.attach(self.ddp, backend=BACKEND, seed=5, **self.arguments)
        self.optimiser = torch.optim.SGD(self.ddp.parameters(), lr=0.1, momentum=0.9)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=64.0, growth_interval=2)
        self._parts = {"model": self.ddp.module, "optimiser": self.optimiser, "scaler": self.scaler, "sync": self.sync}

    def go(self, steps: range) -> None:
        for step in steps:
            x = draw((2, 3, 6, 6), self.ranks.rank, step)
            if step == 4 and self.ranks.rank == 0:
                x[0, 0, 0, 0] = torch.inf  # so that this step is left out, and what was kept comes back
            self.optimiser.zero_grad()
            self.scaler.scale(self.ddp(x).square().mean()).backward()
            self.scaler.step(self.optimiser)
            self.scaler.update()

    def saved(self) -> dict[str, Any]:
        return through_a_file({name: part.state_dict() for name, part in self._parts.items()})

    def load(self, saved: Mapping[str, Any]) -> None:
        for name, part in self._parts.items():
            part.load_state_dict(saved[name])


def trainings() -> Iterator[dict[str, Any]]:
    yield {"compressor": "topk", "ratio": {0: 0.3, 2: 0.1, 5: 0.01}}
    yield {"compressor": "onebit", "start_step": 2}
    yield {"compressor": "terngrad"}
    yield {"compressor": "dgc", "ratio": 0.05}
    for strategy in ("ps", "ring"):
        yield {"compressor": "topk", "ratio": 0.05, "strategy": strategy}
        yield {"compressor": "dgc", "ratio": 0.05, "strategy": strategy}
        yield {"compressor": "onebit", "strategy": strategy}
    yield {"compressor": "randomk", "ratio": 0.1, "strategy": "allreduce"}
    yield {"compressor": "powersgd"}
    yield {"compressor": "topk", "strategy": "hierarchical", "node_size": 1}


def a_whole_training_resumes_to_equal_bits(ranks: Ranks) -> None:
    for arguments in trainings():
        run = Run(ranks, {"rollback": "on", **arguments})
        run.go(range(3))
        saved = run.saved()
        run.go(range(3, 7))
        resumed = Run(ranks, {"rollback": "on", **arguments})
        resumed.load(saved)
        assert resumed.sync.step == 3
        resumed.go(range(3, 7))
        assert equal(parameters(run.ddp), parameters(resumed.ddp)), arguments
        assert same(run.saved(), resumed.saved()), arguments


def same(one: Any, other: Any) -> bool:
    """Whether nested containers hold the same keys, numbers and tensors, bit for bit."""
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(same(a, b) for a, b in zip(one, other, strict=True))
    return bool(one == other)


def what_is_saved_does_not_change_later(ranks: Ranks) -> None:
    for name in ("topk", "onebit", "dgc"):
        ddp = ranks.ddp(given_model())
        sync = compll.attach(ddp, name, backend=BACKEND)
        backward(ddp, wanted(ranks.rank, 0))
        saved = sync.state_dict()
        copy = through_a_file(saved)
        backward(ddp, wanted(ranks.rank, 1))
        assert same(saved, copy) and not same(saved, sync.state_dict())


def what_is_refused_changes_nothing(ranks: Ranks) -> None:
    ddp = ranks.ddp(given_model())
    sync = compll.attach(ddp, "topk", backend=BACKEND)
    backward(ddp, wanted(ranks.rank, 0))
    before = sync.state_dict()
    backward(ddp, wanted(ranks.rank, 1))
    after = sync.state_dict()
    broken = {**before, "states": {**before["states"], "last": {"residual": torch.zeros(3, 3), "states": {}}}}
    with pytest.raises(CompllError, match="saved state of `last`: `residual` needs shape"):
        sync.load_state_dict(broken)
    assert same(after, sync.state_dict())


def what_one_rank_cannot_load_is_named_there(ranks: Ranks) -> None:
    """The others have loaded; they hear of it when that rank leaves, and go on with it where it loads another state."""
    ddp = ranks.ddp(given_model())
    sync = compll.attach(ddp, "topk", backend=BACKEND)
    backward(ddp, wanted(ranks.rank, 0))
    saved = sync.state_dict()
    if ranks.rank == 0:
        broken = through_a_file(saved)
        broken["states"]["first"]["residual"][3, 4:6] = torch.nan
        with pytest.raises(CompllError, match="`first`: `residual` needs finite elements, got 2 of 1200 that are NaN"):
            sync.load_state_dict(broken)
    sync.load_state_dict(saved)
    assert ranks.agree(list(backward(ddp, wanted(ranks.rank, 1)).values()))


def ranks_that_load_different_steps_all_raise(ranks: Ranks) -> None:
    for name in ("randomk", "topk"):
        ddp = ranks.ddp(given_model())
        sync = compll.attach(ddp, name, backend=BACKEND)
        backward(ddp, wanted(ranks.rank, 0))
        saved = sync.state_dict()
        sync.load_state_dict({**saved, "step": saved["step"] + ranks.rank})
        with pytest.raises(RuntimeError, match="in step 1, .* in step 2"):
            backward(ddp, wanted(ranks.rank, 1))


def what_is_saved_says_whose_it_is(ranks: Ranks) -> None:
    sync = SyncState(ranks.ddp(given_model()), "topk", ratio=0.25, backend=BACKEND)
    saved = sync.state_dict()
    assert saved["compressor"] == "topk" and saved["params"] == {"ratio": 0.25} and saved["step"] == 0
    assert (saved["world_size"], saved["rank"]) == (ranks.world, ranks.rank)
    assert saved["source_hash"] == sync.compressor.source_hash
    assert set(saved["states"]) == {"first", "conv", "last"}


def what_does_not_fit_is_refused_by_name(ranks: Ranks) -> None:
    sync = compll.attach(ranks.ddp(given_model()), "topk", backend=BACKEND)
    saved = sync.state_dict()
    for change, text in [
        ({"world_size": 7}, f"is of 7 ranks, this run has {ranks.world}: start as many ranks as before, or do not"),
        ({"rank": 9}, f"is rank 9's, need the one of rank {ranks.rank}"),
        ({"compressor": "dgc"}, "`compressor` needs to be 'topk', got 'dgc'"),
        ({"source_hash": "x"}, "`source_hash`"),
        ({"seed": 4}, "`seed` needs to be 0, got 4"),
        ({"format": 99}, r"saved state needs format \d, got 99"),
        ({"states": {}}, "the saved state has no `conv`, which this run has"),
    ]:
        with pytest.raises(CompllError, match=text):
            sync.load_state_dict({**saved, **change})
    other = compll.attach(ranks.ddp(Given(first=torch.zeros(50, 30))), "topk", backend=BACKEND)
    with pytest.raises(CompllError, match=r"`first`: `residual` needs shape \(50, 30\), got \(40, 30\)"):
        other.load_state_dict({**saved, "states": {"first": saved["states"]["first"]}})


CASES = [
    (resumed_equals_uninterrupted, 2),
    (resumed_equals_uninterrupted, 3),
    (a_whole_training_resumes_to_equal_bits, 2),
    (a_whole_training_resumes_to_equal_bits, 3),
    (what_is_saved_does_not_change_later, 2),
    (what_is_refused_changes_nothing, 2),
    (what_one_rank_cannot_load_is_named_there, 2),
    (ranks_that_load_different_steps_all_raise, 2),
    (what_is_saved_says_whose_it_is, 2),
    (what_does_not_fit_is_refused_by_name, 2),
]
