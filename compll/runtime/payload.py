"""The wire bytes of one gradient, with what one needs to know to decode them."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from compll.runtime.key import Key


@dataclass(frozen=True, slots=True, kw_only=True)
class Payload:
    """`buffer` is a 1-D uint8 tensor: the bytes, and nothing else, that travel.

    `shape` and `dtype` are the gradient's, `key` the one it was encoded under. `reports` is what encode says beside
    the bytes (None for bytes from elsewhere): one bool, whether every element was finite, and one int32, how many
    elements a full bounded section left out. Reading `finite` and `cut` waits for the device.
    """

    buffer: torch.Tensor
    shape: torch.Size
    dtype: torch.dtype
    key: Key
    reports: tuple[torch.Tensor, torch.Tensor] | None = None

    @property
    def nbytes(self) -> int:
        return self.buffer.numel()

    @property
    def is_finite(self) -> torch.Tensor:
        """What `finite` reads: bool [1] on the payload's device, once encode has run there."""
        return torch.ones(1, dtype=torch.bool, device=self.buffer.device) if self.reports is None else self.reports[0]

    @property
    def finite(self) -> bool:
        """False if an element of gradient plus residual was not finite; True for bytes from elsewhere."""
        return self.reports is None or bool(self.reports[0].item())

    @property
    def cut(self) -> int:
        """How many chosen elements did not fit and stayed with the sender; 0 for bytes from elsewhere."""
        return 0 if self.reports is None else int(self.reports[1].item())
