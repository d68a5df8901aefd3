"""What a device is: it loads one function of a compilation and runs it on a batch of segments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch

from compll.codegen.driver import Compilation
from compll.codegen.philox import KeyWords

__all__ = ["Device", "KeyWords", "LoadedFunction", "Segment"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """One gradient of a batch.

    `arrays` holds contiguous tensors by buffer name (plan.Buffer): `gradient`, `residual`, `state_<name>`, `out`,
    `finite` (bool, one element), `cut` (int32, one element) and `payload` (uint8). `environment` has the values of
    `numel`, the dimensions' names and the parameters.
    """

    arrays: Mapping[str, torch.Tensor]
    environment: Mapping[str, float]
    key: KeyWords


class LoadedFunction(Protocol):
    """Runs on every segment; results are in the segments' arrays when the device's stream has passed the call."""

    def __call__(self, segments: Sequence[Segment], threads: int | None = None) -> None: ...


class Device(Protocol):
    """Where functions run; `name` is reference, cpu, emulator or cuda."""

    @property
    def name(self) -> str: ...

    def load(self, compilation: Compilation, function: str) -> LoadedFunction: ...
