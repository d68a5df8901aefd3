"""A batch of gradients into payloads: which function encodes each of them, and what a lazy residual remembers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch

from compll.codegen.feedback_form import EAGER, LAZY
from compll.runtime.batch import Item, run_batch, run_rounds
from compll.runtime.devices.base import Device
from compll.runtime.payload import Payload
from compll.runtime.program import Program
from compll.runtime.state import State


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoding:
    """Gradients ready to be encoded: an item, a state and a zeroed payload for each. `device` is not asked for none."""

    program: Program
    device: Callable[[], Device]
    feedback: bool
    items: Sequence[Item]
    states: Sequence[State]
    payloads: Sequence[Payload]

    def run(self, threads: int | None) -> None:
        """Encode at once; a collective gives the own value."""
        functions = self._functions()
        for function in dict.fromkeys(functions):
            group = [item for item, name in zip(self.items, functions, strict=True) if name == function]
            run_batch(self.program, self.device(), function, group, threads=threads)
        self._remember()

    def rounds(self, threads: int | None) -> Iterator[list[torch.Tensor]]:
        """Encode, waiting at every collective: see `Rounds`."""
        if self.items:
            yield from run_rounds(self.program, self.device(), self._functions(), self.items, threads=threads)
        self._remember()

    def _functions(self) -> list[str]:
        if not self.feedback:
            return ["encode"] * len(self.items)
        return [EAGER if state.previous is None else LAZY for state in self.states]

    def _remember(self) -> None:
        """Keep what was sent where the next step forms the residual of it."""
        for state, payload in zip(self.states, self.payloads, strict=True):
            if self.feedback and state.previous is not None:
                state.previous.payload.copy_(payload.buffer)
                state.previous.fresh = True
