"""What a device is: it loads one function of a compilation and runs it on a batch of segments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch

from compll.codegen import ir
from compll.codegen.driver import Compilation
from compll.codegen.philox import KeyWords

__all__ = ["Device", "KeyWords", "LoadedFunction", "Segment", "Sums"]


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Sums:
    """What a merge adds up: for each gradient a row of payloads that share their `out`, and what the sum is divided by.

    No row is empty; rows may differ in length. With `add` sums start from what `out` holds. Divisors: from 1 to 2^24.
    """

    rows: Sequence[Sequence[Segment]]
    divisors: Sequence[int]
    add: bool


class LoadedFunction(Protocol):
    """Runs on every segment; results are in the segments' arrays when the device's stream has passed the call."""

    @property
    def exchanged(self) -> Sequence[ir.Value]:
        """What the function's collectives reduce, in order: f32 arrays."""

    def __call__(self, segments: Sequence[Segment], threads: int | None = None) -> None: ...

    def rounds(self, segments: Sequence[Segment], threads: int | None = None) -> Iterator[list[torch.Tensor]]:
        """The same call, waiting at every collective of the function.

        Each step yields, for every segment in order, the 1-D f32 tensor that is to become the mean over all ranks in
        place before the next step; without that it stays the rank's own value, as in a plain call. The call is
        complete, and its results are there, when the iterator is exhausted. Steps may run on different threads, one
        at a time, and on a GPU on one stream.
        """


class LoadedMerge(Protocol):
    """Adds up the payloads of several ranks, for many gradients at once, and divides."""

    def __call__(self, sums: Sums, threads: int | None = None) -> None:
        """Into the `out` that the segments of a row share, the sum of what their payloads stand for, one after the
        other: with the bits of `decode` of the first (with `add`, of `decode_add`) and `decode_add` of the others;
        then, in f32 and rounded once, the sum divided by the row's divisor.
        """


class Device(Protocol):
    """Where functions run; `name` is reference, cpu, emulator or cuda."""

    @property
    def name(self) -> str: ...

    def load(self, compilation: Compilation, function: str) -> LoadedFunction: ...

    def load_merge(self, compilation: Compilation) -> LoadedMerge: ...
