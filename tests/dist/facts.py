"""What DDP does to a hook: unused parameters, join, accumulation, not finite gradients, odd parameters."""

from __future__ import annotations

import gc
import random
import threading
from typing import Any

import numpy as np
import pytest
import torch
from harness import BACKEND, Given, Ranks, backward, draw, given_model, residuals, wanted
from torch import nn

import compll
from compll import SyncState
from compll.runtime.sync import log


def unused_on_every_rank_keeps_the_residual(ranks: Ranks) -> None:
    ddp = ranks.ddp(given_model(), find_unused_parameters=True)
    sync = compll.attach(ddp, "topk", ratio=0.1, backend=BACKEND)
    backward(ddp, wanted(ranks.rank, 0))
    before = residuals(sync)
    part = {n: g for n, g in wanted(ranks.rank, 1).items() if n != "first"}
    got = backward(ddp, part)
    after = residuals(sync)
    assert "first" not in got
    assert before["first"].any() and torch.equal(before["first"], after["first"])
    assert not torch.equal(before["last"], after["last"])


def unused_on_one_rank_counts_as_zero(ranks: Ranks) -> None:
    ddp = ranks.ddp(given_model(), find_unused_parameters=True)
    sync = compll.attach(ddp, "topk", ratio=1.0, backend=BACKEND)
    before = residuals(sync)
    part = {n: g for n, g in wanted(ranks.rank, 0).items() if n != "first" or ranks.rank == 0}
    got = backward(ddp, part)
    assert torch.equal(got["first"], wanted(0, 0)["first"] / ranks.world)
    assert ranks.agree(list(got.values()))
    if ranks.rank:
        assert torch.equal(before["first"], residuals(sync)["first"])


def a_rank_that_joined_keeps_its_state(ranks: Ranks) -> None:
    ddp = ranks.ddp(given_model())
    sync = compll.attach(ddp, "topk", ratio=0.1, backend=BACKEND)
    kept = {}
    with ddp.join():
        for step in range(2 + 2 * (ranks.rank == 0)):
            backward(ddp, wanted(ranks.rank, step))
            kept = residuals(sync)
    assert sync.step == 4
    assert all(torch.equal(kept[n], r) and r.any() for n, r in residuals(sync).items())


def no_sync_accumulates(ranks: Ranks) -> None:
    ddp = ranks.ddp(given_model())
    sync = compll.attach(ddp, "topk", ratio=1.0, backend=BACKEND)
    with ddp.no_sync():
        ddp(wanted(ranks.rank, 0)).backward()
    ddp(wanted(ranks.rank, 1)).backward()
    expected = sum(wanted(r, 0)["first"] + wanted(r, 1)["first"] for r in range(ranks.world)) / ranks.world
    grad = ddp.module.get_parameter("first").grad
    assert sync.step == 1 and grad is not None
    torch.testing.assert_close(grad, expected, rtol=1e-6, atol=1e-6)


def not_finite_anywhere_is_nan_everywhere(ranks: Ranks) -> None:
    for name, strategy in (("topk", "allgather"), ("randomk", "allreduce")):
        for rollback in ("on", "off"):
            ddp = ranks.ddp(given_model())
            options: dict[str, Any] = {"feedback": "on", "rollback": rollback, "strategy": strategy}
            sync = compll.attach(ddp, name, ratio=0.1, backend=BACKEND, **options)
            backward(ddp, wanted(ranks.rank, 0))
            before = residuals(sync)
            bad = wanted(ranks.rank, 1)
            if ranks.rank == ranks.world - 1:
                bad["last"][3, 4] = torch.inf
            got = backward(ddp, bad)
            after = residuals(sync)
            assert got["last"].isnan().all() and got["first"].isfinite().all()
            assert ranks.agree(list(got.values()))
            for n in before:
                assert after[n].isfinite().all()
                assert torch.equal(before[n], after[n]) == (rollback == "on"), (n, rollback)


def not_finite_dense_gradients_roll_back_too(ranks: Ranks) -> None:
    ddp = ranks.ddp(given_model())
    sync = compll.attach(ddp, "topk", ratio=0.1, backend=BACKEND, rollback="on")
    bad = wanted(ranks.rank, 0)
    if ranks.rank == 0:
        bad["bias"][2] = torch.nan
    got = backward(ddp, bad)
    assert got["bias"][2].isnan() and not any(r.any() for r in residuals(sync).values())


def f16_gradients_roll_back_by_default(ranks: Ranks) -> None:
    ddp = ranks.ddp(Given(large=torch.zeros(40, 40, dtype=torch.float16)))
    sync = compll.attach(ddp, "topk", ratio=0.1, backend=BACKEND)
    bad = draw((40, 40), ranks.rank, dtype=torch.float16)
    bad[0, 0] = torch.inf if ranks.rank == 0 else 0.0
    assert backward(ddp, {"large": bad})["large"].isnan().all()
    assert not residuals(sync)["large"].any()


def generators_are_untouched(ranks: Ranks) -> None:
    ddp = ranks.ddp(given_model())
    before = (torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist())
    sync = compll.attach(ddp, "dgc", backend=BACKEND)
    for step in range(3):
        backward(ddp, wanted(ranks.rank, step))
    sync.load_state_dict(sync.state_dict())
    assert torch.equal(before[0], torch.get_rng_state())
    assert before[1:] == (random.getstate(), np.random.get_state()[1].tolist())


class Odd(nn.Module):
    """A 0-dimensional, a one-element, an empty and a tied parameter, of three dtypes."""

    def __init__(self) -> None:
        super().__init__()
        self.scalar = nn.Parameter(torch.ones(()))
        self.one = nn.Parameter(torch.ones(1, 1))
        self.empty = nn.Parameter(torch.ones(0, 3))
        self.large = nn.Parameter(torch.ones(40, 30))
        self.tied = self.large
        self.wide = nn.Parameter(torch.ones(50, 50, dtype=torch.float64))
        self.narrow = nn.Parameter(torch.ones(50, 50, dtype=torch.bfloat16))

    def forward(self, x: float) -> torch.Tensor:
        small = self.scalar * x + (self.one * x).sum() + self.empty.sum()
        return small + ((self.large + self.tied) * x).sum() + (self.wide * x).sum() + (self.narrow * x).sum()


def odd_parameters(ranks: Ranks) -> None:
    ddp = ranks.ddp(Odd())
    with pytest.MonkeyPatch.context() as patch:
        said: list[str] = []
        patch.setattr(log, "warning", lambda text, *given: said.append(text % given))
        sync = compll.attach(ddp, "topk", ratio=1.0, backend=BACKEND)
    assert len(said) == 1 and "`wide` (torch.float64)" in said[0]
    for _ in range(2):
        ddp.zero_grad()
        ddp(float(ranks.rank + 1)).backward()
        mean = sum(range(1, ranks.world + 1)) / ranks.world
        for name, parameter in ddp.module.named_parameters():
            factor = 2 if name == "large" else 1
            assert parameter.grad is not None and parameter.grad.dtype == parameter.dtype
            torch.testing.assert_close(parameter.grad, torch.full_like(parameter, factor * mean))
    assert set(residuals(sync)) == {"large", "narrow"}


def a_model_with_nothing_to_compress_trains(ranks: Ranks) -> None:
    ddp = ranks.ddp(Given(bias=torch.zeros(30)))
    sync = compll.attach(ddp, "topk", backend=BACKEND)
    got = backward(ddp, {"bias": torch.full((30,), float(ranks.rank))})
    assert torch.equal(got["bias"], torch.full((30,), (ranks.world - 1) / 2))
    assert sync.stats().ratio == 1.0


def the_worker_ends_with_its_state(ranks: Ranks) -> None:
    threads = {t for t in threading.enumerate() if t.name == "compll-sync"}
    ddp = ranks.ddp(given_model())
    sync = SyncState(ddp, "topk", backend=BACKEND)
    (mine,) = [t for t in threading.enumerate() if t.name == "compll-sync" and t not in threads]
    del sync
    gc.collect()
    mine.join(timeout=10)
    assert not mine.is_alive()


CASES = [
    *((case, world) for world in (2,) for case in (
        unused_on_every_rank_keeps_the_residual,
        unused_on_one_rank_counts_as_zero,
        a_rank_that_joined_keeps_its_state,
        no_sync_accumulates,
        not_finite_anywhere_is_nan_everywhere,
        not_finite_dense_gradients_roll_back_too,
        f16_gradients_roll_back_by_default,
        generators_are_untouched,
        odd_parameters,
        a_model_with_nothing_to_compress_trains,
        the_worker_ends_with_its_state,
    )),
    (unused_on_one_rank_counts_as_zero, 3),
    (not_finite_anywhere_is_nan_everywhere, 3),
]  # fmt: skip
