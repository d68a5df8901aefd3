"""Saved states that are incomplete or of the wrong kinds are refused by name, before anything is taken over."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import compll
from compll import CompllError
from compll.runtime.checkpoint import check_identity, check_states, saved_state

LOWEST = """
compressor lowest {
    state lowest: f32[n] = inf;

    payload {
        value: f32[n];
    }

    encode(g: f32[n]) {
        lowest = min(lowest, abs(g));
        return { value: lowest };
    }

    decode(p) -> f32[n] {
        return p.value;
    }
}
"""

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


def broken(**tensors: torch.Tensor) -> dict[str, Any]:
    """A saved state of dgc for four elements, with some tensors in place of zeros."""
    tensors = {"residual": None, "velocity": torch.zeros(4), "pending": torch.zeros(4), **tensors}
    return {"residual": tensors.pop("residual"), "states": tensors}


NOT_FINITE = torch.tensor([0.0, torch.nan, 1.0, torch.inf])


@pytest.mark.parametrize(
    "tensors, text",
    [
        ({"velocity": NOT_FINITE}, "`state velocity` needs finite elements, got 2 of 4 that are NaN or infinite"),
        ({"velocity": torch.zeros(4, dtype=torch.float64)}, "`state velocity` needs torch.float32, got torch.float64"),
        ({"velocity": torch.zeros(5)}, r"`state velocity` needs shape \(4,\), got \(5,\)"),
        ({"velocity": torch.zeros(4).to_sparse()}, "`state velocity` needs a dense tensor"),
        ({"residual": torch.zeros(4)}, "need `state .*`, got `residual`, `state"),
        ({"spare": torch.zeros(4)}, "need `state .*`, got .*`state spare`"),
    ],
    ids=["not finite", "dtype", "shape", "sparse", "residual", "spare"],
)
def test_a_state_that_does_not_fit(tensors: dict[str, torch.Tensor], text: str) -> None:
    state = compll.load("dgc", backend="reference").init_state(torch.zeros(4))
    check_states({"w": broken()}, {"w": state})
    with pytest.raises(CompllError, match=f"saved state of `w`: .*{text}"):
        check_states({"w": broken(**tensors)}, {"w": state})
    assert not any(tensor.any() for _, tensor in state.tensors())


def test_a_residual_that_is_not_finite() -> None:
    state = compll.load("topk", backend="reference").init_state(torch.zeros(4))
    with pytest.raises(CompllError, match="`residual` needs finite elements, got 2 of 4"):
        check_states({"w": {"residual": NOT_FINITE, "states": {}}}, {"w": state})


def test_a_program_may_start_from_inf(tmp_path: Path) -> None:
    path = tmp_path / "lowest.cll"
    path.write_text(LOWEST)
    state = compll.load(path, backend="reference").init_state(torch.zeros(4))
    assert state.states["lowest"].isinf().all()
    state.load_state_dict(state.state_dict())
    with pytest.raises(CompllError, match="`state lowest` needs finite elements, got 1 of 4"):
        state.load_state_dict({"residual": None, "states": {"lowest": NOT_FINITE}})


def test_states_that_are_missing_or_too_many() -> None:
    state = compll.load("topk", backend="reference").init_state(torch.zeros(4))
    with pytest.raises(CompllError, match="the saved state has no `w`, which this run has"):
        check_states({}, {"w": state})
    with pytest.raises(CompllError, match="the saved state has `v`, which this run has not"):
        check_states({"w": state.state_dict(), "v": state.state_dict()}, {"w": state})
