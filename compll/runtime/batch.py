"""One call of a function on many gradients: grouped by compilation, so that hundreds of tensors cost a few launches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from compll.codegen.driver import Compilation
from compll.runtime.devices.base import Device, KeyWords, Segment
from compll.runtime.key import Key
from compll.runtime.program import Program, Sized


@dataclass(frozen=True, slots=True)
class Item:
    """One gradient: its sizes, its contiguous tensors by buffer name, its key."""

    sized: Sized
    arrays: Mapping[str, torch.Tensor]
    key: Key

    def segment(self) -> Segment:
        key = self.key
        words = KeyWords(seed=key.seed, owner=key.owner, step=key.step, gradient_id=key.gradient, base=key.base)
        return Segment(arrays=self.arrays, environment=self.sized.environment, key=words)


def run_batch(
    program: Program, device: Device, function: str, items: Sequence[Item], *, threads: int | None = None
) -> None:
    """Run `function` on every item that has elements. A program without payload decodes by copying."""
    groups: dict[int, tuple[Compilation, list[Item]]] = {}
    for item in items:
        if item.sized.numel == 0:
            continue
        if function in ("decode", "decode_add") and not item.sized.has_payload:
            _copy_result(item, add=function == "decode_add")
            continue
        compilation = item.sized.compilation
        groups.setdefault(id(compilation), (compilation, []))[1].append(item)
    for compilation, group in groups.values():
        loaded = program.function(device, compilation, function)
        loaded([item.segment() for item in group], threads=threads)


def _copy_result(item: Item, *, add: bool) -> None:
    result, out = item.arrays["payload"].view(torch.float32), item.arrays["out"]
    if add:
        out.add_(result)
    else:
        out.copy_(result)
