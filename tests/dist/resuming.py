"""Saving and loading what a SyncState keeps."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
import torch
from harness import BACKEND, Given, Ranks, backward, given_model, wanted

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
        ({"format": 99}, "format 1, got 99"),
        ({"states": {}}, "differ in which parameters are compressed: `conv`"),
    ]:
        with pytest.raises(CompllError, match=text):
            sync.load_state_dict({**saved, **change})
    other = compll.attach(ranks.ddp(Given(first=torch.zeros(50, 30))), "topk", backend=BACKEND)
    with pytest.raises(CompllError, match=r"`first`: `residual` needs shape \(50, 30\), got \(40, 30\)"):
        other.load_state_dict({**saved, "states": {"first": saved["states"]["first"]}})


CASES = [
    (resumed_equals_uninterrupted, 2),
    (resumed_equals_uninterrupted, 3),
    (what_is_saved_says_whose_it_is, 2),
    (what_does_not_fit_is_refused_by_name, 2),
]
