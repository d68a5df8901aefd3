"""The saved form of a SyncState: plain tensors and numbers, with enough identity to refuse what does not fit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from compll.diagnostics import CompllError
from compll.runtime.state import State

FORMAT = 2

#: What must be equal between the saved state and the one that loads it; `params` may change where shapes allow.
_EQUAL = ("compressor", "source_hash", "seed")


def saved_state(
    identity: Mapping[str, Any], *, step: int, plan: Mapping[str, Any], states: Mapping[str, State]
) -> dict[str, Any]:
    """The dictionary that `SyncState.state_dict` returns."""
    tensors = {name: state.state_dict() for name, state in states.items()}
    return {"format": FORMAT, **identity, "step": step, "plan": dict(plan), "states": tensors}


def check_identity(saved: Mapping[str, Any], identity: Mapping[str, Any]) -> None:
    """Raise CompllError when a saved state is of another run, naming the first thing that differs."""
    if not isinstance(saved, Mapping):
        raise CompllError(f"saved state needs the dictionary that `state_dict` returned, got {type(saved).__name__}")
    if saved.get("format") != FORMAT:
        raise CompllError(f"saved state needs format {FORMAT}, got {saved.get('format')!r}")
    missing = [name for name in (*identity, "step", "plan", "states") if name not in saved and name != "params"]
    if missing:
        raise CompllError(f"saved state has no `{missing[0]}`: it is incomplete")
    step = saved["step"]
    if isinstance(step, bool) or not isinstance(step, int) or step < 0:
        raise CompllError(f"saved state: `step` needs a whole number of at least 0, got {step!r}")
    if saved["world_size"] != identity["world_size"]:
        raise CompllError(
            f"the saved state is of {saved['world_size']} ranks, this run has {identity['world_size']}: start as many "
            "ranks as before, or do not load it and start with empty residuals (what was not yet sent is lost)"
        )
    if saved["rank"] != identity["rank"]:
        raise CompllError(f"the saved state is rank {saved['rank']}'s, need the one of rank {identity['rank']}")
    for name in _EQUAL:
        if saved[name] != identity[name]:
            raise CompllError(f"saved state: `{name}` needs to be {identity[name]!r}, got {saved[name]!r}")


def check_states(saved: Mapping[str, Any], states: Mapping[str, State]) -> None:
    """Raise CompllError when saved states do not fit, naming the first."""
    if not isinstance(saved, Mapping):
        raise CompllError(f"saved state: `states` needs a dictionary, got {type(saved).__name__}")
    if saved.keys() != states.keys():
        missing, more = sorted(states.keys() - saved.keys()), sorted(map(str, saved.keys() - states.keys()))
        differs = f"no `{missing[0]}`, which this run has" if missing else f"`{more[0]}`, which this run has not"
        raise CompllError(f"the saved state has {differs}: give the model, plan and options that it was saved with")
    for name, state in states.items():
        try:
            state.clone().load_state_dict(saved[name])
        except CompllError as problem:
            raise CompllError(f"saved state of `{name}`: {problem}") from None
