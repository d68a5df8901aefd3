"""What a compressor keeps of one gradient between steps. Knows no key, shape rule or device."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from compll.diagnostics import CompllError
from compll.runtime.checks import check_dense, check_kind, check_shape


@dataclass(slots=True, kw_only=True)
class Previous:
    """The other half of a residual that is formed on the fly: residual = what is held - decode(payload).

    `form` does that in place: it makes of the tensor that is held, and of the payload, the residual. A payload of
    zeros decodes to zeros, so that a residual as it is and a zero payload are a legal state.
    """

    payload: torch.Tensor
    form: Callable[[torch.Tensor, torch.Tensor], None]
    values: Mapping[str, float | int | bool]  # the parameters that the payload was made with
    fresh: bool = False  # whether the payload says anything

    def clone(self) -> Previous:
        return replace(self, payload=self.payload.clone())


class State:
    """`residual` (f32, the gradient's shape; None without feedback) and the program's own `states` by name.

    `encode` updates the tensors in place. Where a program's decode is elementwise, encode leaves the residual in two
    parts; reading `residual` joins them (one pass), and what is returned is the state's own tensor again.
    """

    def __init__(
        self, *, residual: torch.Tensor | None, states: dict[str, torch.Tensor], previous: Previous | None = None
    ) -> None:
        check_kind(residual, (torch.Tensor, type(None)), "residual", "a tensor or None")
        check_kind(states, Mapping, "states", "a dictionary of tensors")
        self.held = residual
        self.states = states
        self.previous = previous

    @property
    def residual(self) -> torch.Tensor | None:
        self.join()
        return self.held

    def join(self) -> None:
        """Make what is held the residual itself."""
        previous = self.previous
        if previous is not None and previous.fresh and self.held is not None:
            previous.form(self.held, previous.payload)
            previous.payload.zero_()
            previous.fresh = False

    def parts(self) -> list[torch.Tensor]:
        """The tensors as they are: what is held of the residual, the payload to subtract, the states by name."""
        parts = [] if self.held is None else [self.held]
        if self.previous is not None:
            parts.append(self.previous.payload)
        return parts + [self.states[name] for name in sorted(self.states)]

    def tensors(self) -> Iterator[tuple[str, torch.Tensor]]:
        """Every tensor under a name for messages: `residual`, `state velocity`."""
        if self.residual is not None:
            yield "residual", self.residual
        for name, tensor in self.states.items():
            yield f"state {name}", tensor

    def clone(self) -> State:
        """An independent copy; a residual in two parts stays in two."""
        held = None if self.held is None else self.held.clone()
        states = {name: tensor.clone() for name, tensor in self.states.items()}
        return State(residual=held, states=states, previous=self.previous and self.previous.clone())

    def copy_from(self, other: State) -> None:
        """Take over the values of a state of the same program and shape, and the form that its residual has."""
        check_kind(other, State, "other", "a compll.State")
        if self.held is not None and other.held is not None:
            self.held.copy_(other.held)
        for name, tensor in self.states.items():
            tensor.copy_(other.states[name])
        mine, theirs = self.previous, other.previous
        if mine is None or theirs is None or mine.values != theirs.values:
            self.previous = theirs and theirs.clone()
        else:
            mine.payload.copy_(theirs.payload)
            mine.fresh = theirs.fresh

    def state_dict(self) -> dict[str, Any]:
        """Copies on the CPU: {"residual": tensor or None, "states": {name: tensor}}."""
        residual = self.clone().residual
        return {
            "residual": None if residual is None else residual.cpu(),
            "states": {name: tensor.to("cpu", copy=True) for name, tensor in self.states.items()},
        }

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        """Take over saved values, from whatever device. Raises CompllError naming the tensor that is missing, is one
        too many, or has another shape or dtype or elements that are not finite; then nothing has changed."""
        if not isinstance(saved, Mapping) or not isinstance(saved.get("states"), Mapping) or "residual" not in saved:
            raise CompllError("state: need a dictionary with `residual` and `states`")
        theirs = dict(State(residual=saved["residual"], states=dict(saved["states"])).tensors())
        mine = dict(self.tensors())
        if mine.keys() != theirs.keys():
            raise CompllError(f"state: need {_names(mine)}, got {_names(theirs)}")
        for name, tensor in mine.items():
            _check_like(tensor, theirs[name], name)
        for name, tensor in mine.items():
            tensor.copy_(theirs[name])


def _check_like(mine: torch.Tensor, theirs: Any, name: str) -> None:
    """Encode leaves nothing behind that is not finite, and would spread it, unless a program starts from `inf`."""
    check_shape(theirs, mine.shape, name)
    check_dense(theirs, name)
    if theirs.dtype != mine.dtype:
        raise CompllError(f"`{name}` needs {mine.dtype}, got {theirs.dtype}")
    broken = int((theirs.isnan() if mine.isinf().any() else theirs.isfinite().logical_not_()).sum())
    if broken:
        raise CompllError(f"`{name}` needs finite elements, got {broken} of {theirs.numel()} that are NaN or infinite")


def _names(tensors: Mapping[str, torch.Tensor]) -> str:
    return ", ".join(f"`{name}`" for name in tensors) or "no tensor"
