"""Payloads of several ranks into one gradient, for many gradients at once: in rank order, in f32, rounded once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from compll.codegen.driver import Compilation
from compll.runtime.batch import Item, run_batch
from compll.runtime.buffers import accumulator, store
from compll.runtime.checks import aligned, check_bytes, check_kind
from compll.runtime.devices.base import Device, Sums
from compll.runtime.key import Key
from compll.runtime.payload import Payload
from compll.runtime.program import Program, Sized
from compll.runtime.rounding import divide


@dataclass(frozen=True, slots=True)
class Sum:
    """One gradient on its way: what is added, where, and where the result goes."""

    items: Sequence[Item]
    total: torch.Tensor
    out: torch.Tensor
    divisor: int

    @property
    def has_payloads(self) -> bool:
        """Whether there is something that the program's own decode adds up."""
        return bool(self.items) and self.items[0].sized.has_payload and self.items[0].sized.numel > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Merger:
    """Runs a program's decode; `sized` is the program for a shape and dtype."""

    program: Program
    device: Device
    sized: Callable[[torch.Size, torch.dtype], Sized]
    threads: int | None

    def merge(
        self, rows: Sequence[Sequence[Payload | None]], outs: Sequence[torch.Tensor], *, add: bool, mean: bool
    ) -> None:
        """Into each of `outs` the sum of a row's payloads (None: nothing), divided by the row's length for a mean."""
        sums = [self._sum(row, out, add=add, mean=mean) for row, out in zip(rows, outs, strict=True)]
        for compilation, group in _by_compilation(sums):
            rows_of_group = [[item.segment() for item in s.items] for s in group]
            merge = self.program.merge(self.device, compilation)
            merge(Sums(rows=rows_of_group, divisors=[s.divisor for s in group], add=add), self.threads)
        self._others([s for s in sums if not s.has_payloads], add=add)
        store([s.total for s in sums], [s.out for s in sums])

    def _others(self, sums: Sequence[Sum], *, add: bool) -> None:
        """The results of programs without payload, and rows in which no rank has anything."""
        for s in sums:
            if s.items and not s.items[0].sized.has_payload:
                self._copy(s.items, add=add)
            if not s.items and not add:
                s.total.zero_()
        divide([s.total for s in sums], [s.divisor for s in sums])

    def _copy(self, items: Sequence[Item], *, add: bool) -> None:
        """The results of a program without payload."""
        for at, item in enumerate(items):
            run_batch(self.program, self.device, "decode_add" if add or at else "decode", [item])

    def _sum(self, row: Sequence[Payload | None], out: torch.Tensor, *, add: bool, mean: bool) -> Sum:
        total = accumulator(out, add=add)
        flat = total.view(-1)
        items = [self._item(payload, flat) for payload in row if payload is not None]
        return Sum(items, total, out, len(row) if mean else 1)

    def _item(self, payload: Payload, out: torch.Tensor) -> Item:
        sized = self.sized(payload.shape, payload.dtype)
        check_bytes(payload.buffer, sized.payload_nbytes, out.device, owner=self.program.name)
        check_kind(payload.key, Key, "payload.key", "a compll.Key")
        return Item(sized, {"payload": aligned(payload.buffer), "out": out}, payload.key)


def _by_compilation(sums: Sequence[Sum]) -> list[tuple[Compilation, list[Sum]]]:
    """The sums of payloads that have elements, by what decodes them: the same for all payloads of a sum."""
    groups: dict[int, tuple[Compilation, list[Sum]]] = {}
    for s in sums:
        if s.has_payloads:
            compilation = s.items[0].sized.compilation
            groups.setdefault(id(compilation), (compilation, []))[1].append(s)
    return list(groups.values())
