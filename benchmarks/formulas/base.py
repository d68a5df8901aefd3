"""What a formula is, and the error feedback that several papers share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import torch
from torch import Tensor

Payload = dict[str, Tensor]
Draws = Mapping[str, Tensor]
"""Random words by the name that the formula gives them; empty for a formula that draws nothing."""

Memory = dict[str, Tensor]
"""What one worker keeps of one gradient between steps; a formula that keeps nothing leaves it empty."""


class Formula(Protocol):
    """One compressor: `compress` may read and change `memory`; `decompress` gives f32 of the wanted shape."""

    def compress(self, gradient: Tensor, memory: Memory, draws: Draws) -> Payload: ...

    def decompress(self, payload: Payload, shape: torch.Size, draws: Draws) -> Tensor: ...


def with_feedback(formula: Formula, gradient: Tensor, memory: Memory, draws: Draws) -> tuple[Payload, Tensor]:
    """Error feedback (Seide et al. 2014, section 3.1; Karimireddy et al. 2019, algorithm 1): returns what is sent and
    its decoding, and leaves in `memory["residual"]` what was not sent."""
    corrected = gradient + memory.get("residual", torch.zeros_like(gradient))
    payload = formula.compress(corrected, memory, draws)
    sent = formula.decompress(payload, gradient.shape, draws)
    memory["residual"] = corrected - sent
    return payload, sent


def largest(magnitude: Tensor, k: int) -> Tensor:
    """Ascending positions of the k largest along the last axis; of equal ones the first (torch.topk promises none)."""
    order = torch.sort(magnitude, dim=-1, descending=True, stable=True).indices
    return order[..., :k].sort(dim=-1).values
