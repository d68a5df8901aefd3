"""All states that a rank keeps, by name: of its gradients' pieces and of what it passes on for others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from compll.runtime.compressor import Compressor
from compll.runtime.key import Key
from compll.runtime.state import State


@dataclass(slots=True)
class Kept:
    """A state, and what it may go back to."""

    state: State
    initial: State | None = None  # for a state that starts anew in every step, its residual aside
    saved: State | None = None  # as it was before the step


class States(Mapping[str, State]):
    """With `rollback`, a step can be undone until it is settled."""

    def __init__(self, *, rollback: bool) -> None:
        self.rollback = rollback
        self._kept: dict[str, Kept] = {}
        self._used: list[Kept] = []

    def __getitem__(self, name: str) -> State:
        return self._kept[name].state

    def __iter__(self) -> Iterator[str]:
        return iter(self._kept)

    def __len__(self) -> int:
        return len(self._kept)

    def add(self, name: str, like: torch.Tensor, compressor: Compressor, key: Key, *, anew: bool = False) -> None:
        """A state for encoding gradients like `like`. `anew`: every step starts from the program's initial states, and
        only the residual stays, as re-encoding for others does (docs/numerics.md)."""
        state = compressor.init_state(like, key)
        self._kept[name] = Kept(state, initial=state.clone() if anew and state.states else None)

    def take_out(self) -> dict[str, Kept]:
        """All states, which are no longer here; `put_back` takes them."""
        kept, self._kept = self._kept, {}
        return kept

    def put_back(self, kept: dict[str, Kept]) -> None:
        self._kept = kept

    def use(self, name: str) -> State:
        """The state, to be encoded with in this step."""
        kept = self._kept[name]
        if self.rollback:
            self._used.append(kept)
            if kept.saved is None:
                kept.saved = kept.state.clone()
            else:
                kept.saved.copy_from(kept.state)
        if kept.initial is not None:
            for own, first in kept.initial.states.items():
                kept.state.states[own].copy_(first)
        return kept.state

    def settle(self, *, keep: bool) -> None:
        """End a step; without `keep` every state is again what it was before."""
        for kept in self._used if not keep else ():
            if kept.saved is not None:
                kept.state.copy_from(kept.saved)
        self._used = []

    def residual_norm(self, names: Iterable[str]) -> float:
        """The 2-norm of what these states keep in residuals; 0 for states that are not here or have none."""
        own = [self[name].residual for name in names if name in self]
        return float(torch.tensor([float(r.norm()) for r in own if r is not None] or [0.0]).norm())

    def state_dict(self) -> dict[str, Any]:
        return {name: state.state_dict() for name, state in self.items()}
