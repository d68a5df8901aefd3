"""What a compressor keeps of one gradient between steps. Knows no key, shape rule or device."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from compll.diagnostics import CompllError


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """`residual` (f32, the gradient's shape; None without feedback) and the program's own states by name.

    `encode` updates the tensors in place.
    """

    residual: torch.Tensor | None
    states: dict[str, torch.Tensor]

    def tensors(self) -> Iterator[tuple[str, torch.Tensor]]:
        """Every tensor under a name for messages: `residual`, `state velocity`."""
        if self.residual is not None:
            yield "residual", self.residual
        for name, tensor in self.states.items():
            yield f"state {name}", tensor

    def clone(self) -> State:
        """An independent copy."""
        residual = None if self.residual is None else self.residual.clone()
        return State(residual=residual, states={name: tensor.clone() for name, tensor in self.states.items()})

    def copy_from(self, other: State) -> None:
        """Take over the values of a state of the same program and shape."""
        for (_, mine), (_, theirs) in zip(self.tensors(), other.tensors(), strict=True):
            mine.copy_(theirs)

    def state_dict(self) -> dict[str, Any]:
        """Copies: {"residual": tensor or None, "states": {name: tensor}}."""
        copy = self.clone()
        return {"residual": copy.residual, "states": copy.states}

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        """Take over saved values. Raises CompllError naming the tensor that is missing or has another shape."""
        theirs = dict(State(residual=saved["residual"], states=dict(saved["states"])).tensors())
        mine = dict(self.tensors())
        if mine.keys() != theirs.keys():
            raise CompllError(f"state: need {_names(mine)}, got {_names(theirs)}")
        for name, tensor in mine.items():
            if tensor.shape != theirs[name].shape:
                raise CompllError(f"`{name}` needs shape {tuple(tensor.shape)}, got {tuple(theirs[name].shape)}")
        for name, tensor in mine.items():
            tensor.copy_(theirs[name])


def _names(tensors: Mapping[str, torch.Tensor]) -> str:
    return ", ".join(f"`{name}`" for name in tensors) or "no tensor"
