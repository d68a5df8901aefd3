"""Memory that is used again from step to step: nothing is allocated on the hot path once buckets have settled."""

from __future__ import annotations

import torch


class Arena:
    """Tensors by name; one is made anew when another size, dtype or device is asked for."""

    def __init__(self) -> None:
        self._tensors: dict[object, torch.Tensor] = {}

    def get(self, name: object, numel: int, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
        """A 1-D tensor; its contents are whatever was there before."""
        kept = self._tensors.get(name)
        if kept is None or kept.numel() != numel or kept.dtype != dtype or kept.device != device:
            kept = self._tensors[name] = torch.empty(numel, dtype=dtype, device=device)
        return kept
