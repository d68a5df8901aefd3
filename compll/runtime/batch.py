"""One call of a function on many gradients: grouped by compilation, so that hundreds of tensors cost a few launches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch

from compll.codegen.driver import Compilation
from compll.runtime.devices.base import Device, KeyWords, Segment
from compll.runtime.key import Key
from compll.runtime.program import Program, Sized
from compll.runtime.rounds import in_step


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
    if function in ("decode", "decode_add"):
        for item in items:
            if item.sized.numel and not item.sized.has_payload:
                _copy_result(item, add=function == "decode_add")
        items = [item for item in items if item.sized.has_payload]
    for compilation, positions in _groups(items):
        loaded = program.function(device, compilation, function)
        loaded([items[at].segment() for at in positions], threads=threads)


def run_rounds(
    program: Program, device: Device, functions: Sequence[str], items: Sequence[Item], *, threads: int | None = None
) -> Iterator[list[torch.Tensor]]:
    """As `run_batch`, a function for each item, waiting at every collective: see `Rounds`."""
    running = []
    for function in dict.fromkeys(functions):
        chosen = [at for at, name in enumerate(functions) if name == function]
        for compilation, positions in _groups([items[at] for at in chosen]):
            group = [chosen[at] for at in positions]
            loaded = program.function(device, compilation, function)
            running.append((group, loaded.rounds([items[at].segment() for at in group], threads=threads)))
    return in_step(running)


def _groups(items: Sequence[Item]) -> list[tuple[Compilation, list[int]]]:
    """The positions of the items that have elements, by compilation."""
    groups: dict[int, tuple[Compilation, list[int]]] = {}
    for at, item in enumerate(items):
        if item.sized.numel:
            compilation = item.sized.compilation
            groups.setdefault(id(compilation), (compilation, []))[1].append(at)
    return list(groups.values())


def _copy_result(item: Item, *, add: bool) -> None:
    result, out = item.arrays["payload"].view(torch.float32), item.arrays["out"]
    if add:
        out.add_(result)
    else:
        out.copy_(result)
