"""Saved states that are incomplete or of the wrong kinds are refused by name, before anything is taken over."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import compll
from compll import CompllError
from compll.runtime.checkpoint import check_identity, check_states, saved_state

IDENTITY = {
    "compressor": "topk", "source_hash": "0", "params": {"ratio": 0.1}, "seed": 0, "world_size": 2, "rank": 0
}  # fmt: skip


def saved() -> dict[str, Any]:
    return saved_state(IDENTITY, step=3, plan={"version": 1, "gradients": {}}, states={})


def test_what_was_saved_fits() -> None:
    check_identity(saved(), IDENTITY)


@pytest.mark.parametrize("name", ["compressor", "source_hash", "seed", "world_size", "rank", "step", "plan", "states"])
def test_a_missing_entry_is_named(name: str) -> None:
    incomplete = saved()
    del incomplete[name]
    with pytest.raises(CompllError, match=f"no `{name}`"):
        check_identity(incomplete, IDENTITY)


@pytest.mark.parametrize("step", [None, "x", -1, 1.5])
def test_a_step_that_is_no_step(step: object) -> None:
    with pytest.raises(CompllError, match="`step` needs a whole number"):
        check_identity({**saved(), "step": step}, IDENTITY)


def test_no_dictionary() -> None:
    with pytest.raises(CompllError, match="got int"):
        check_identity(5, IDENTITY)  # type: ignore[arg-type]
    with pytest.raises(CompllError, match="got NoneType"):
        check_states(None, {})  # type: ignore[arg-type]


@pytest.mark.parametrize("part", [5, {}, {"residual": None}, {"residual": 3, "states": {}}])
def test_a_state_of_the_wrong_kind_names_its_gradient(part: object) -> None:
    state = compll.load("topk", backend="reference").init_state(torch.zeros(4))
    with pytest.raises(CompllError, match="saved state of `w`"):
        check_states({"w": part}, {"w": state})
