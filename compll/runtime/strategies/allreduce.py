"""Payloads that add (trait linear): all sections of one dtype in one all-reduce for each bucket, then one decode.

The flags travel as three counts for each gradient in the f32 reduction: ranks that have it, ranks where it is not
finite, ranks that failed to encode it.
f32 sums are divided afterwards; 16-bit sections before, so that large values do not overflow in the sum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch

from compll.runtime.collectives import Collectives, Handle
from compll.runtime.compressor import Compressor
from compll.runtime.envelope import FAILED, FINITE, HAS_GRADIENT, Envelope, Verdict
from compll.runtime.gradients import GradientSpec
from compll.runtime.key import Key
from compll.runtime.payload import Payload
from compll.runtime.program import ANY_SHAPE
from compll.runtime.strategies.memory import Arena

SUMMABLE = (torch.float32, torch.float16, torch.bfloat16)
COUNTS = 3


def reducible(compressor: Compressor) -> str:
    """Why payloads of this program cannot be summed in place; empty if they can."""
    if "linear" not in compressor.traits:
        return f"`{compressor.name}` does not declare `trait linear`"
    if compressor.sized(ANY_SHAPE).header_bytes:
        return f"`{compressor.name}` has a bounded field"
    for section in compressor.sections(ANY_SHAPE):
        if section.dtype not in SUMMABLE:
            return f"field `{section.name}` of `{compressor.name}` is no float"
    return ""


class AllReduce:
    """The strategy for linear programs: its traffic does not grow with the number of ranks."""

    def __init__(self, collectives: Collectives) -> None:
        self._collectives = collectives
        self._arena = Arena()

    def open(
        self, bucket: int, specs: Sequence[GradientSpec], compressor: Compressor, device: torch.device
    ) -> AllReduceExchange:
        envelope = Envelope(tuple(compressor.payload_bytes(s.shape, s.dtype) for s in specs))
        buffer = self._arena.get((bucket, "payloads"), envelope.nbytes, torch.uint8, device).zero_()
        return AllReduceExchange(self._collectives, compressor, specs, envelope.payloads(buffer))


class AllReduceExchange:
    def __init__(
        self,
        collectives: Collectives,
        compressor: Compressor,
        specs: Sequence[GradientSpec],
        payloads: Sequence[torch.Tensor],
    ) -> None:
        self._collectives = collectives
        self._compressor = compressor
        self._specs = specs
        self._payloads = payloads
        self._sums: dict[torch.dtype, torch.Tensor] = {}
        self._handle: Handle | None = None

    @property
    def payloads(self) -> Sequence[torch.Tensor]:
        return self._payloads

    @property
    def bytes_sent(self) -> int:
        return sum(t.numel() * t.element_size() for t in self._sums.values())

    def start(self, flags: Sequence[int], done: Callable[[], None]) -> None:
        device = self._payloads[0].device
        counts = [[float(bool(flag)) for flag in (f & HAS_GRADIENT, not f & FINITE, f & FAILED)] for f in flags]
        parts = {torch.float32: [torch.tensor(counts, device=device).view(-1)]}
        for dtype, section in self._sections():
            parts.setdefault(dtype, []).append(section)
        self._sums = {dtype: torch.cat(tensors) for dtype, tensors in parts.items()}
        for dtype, total in self._sums.items():
            if dtype != torch.float32:
                total.div_(self._collectives.world_size)
        self._handle = self._collectives.all_reduce(list(self._sums.values()), done)

    def wait(self) -> None:
        if self._handle is not None:
            self._handle.wait()

    def merge(self, outs: Sequence[torch.Tensor], keys: Callable[[int], Sequence[Key]], threads: int) -> list[Verdict]:
        counts = self._sums[torch.float32][: COUNTS * len(self._specs)].view(-1, COUNTS).tolist()
        verdicts = [
            Verdict((present > 0,), bad == 0, "another rank" if failed else "") for present, bad, failed in counts
        ]
        if any(verdict.failed for verdict in verdicts):
            return verdicts
        self._store_means()
        rows = [
            [Payload(buffer=buffer, shape=spec.shape, dtype=spec.dtype, key=key) if verdict.present[0] else None]
            for buffer, spec, key, verdict in zip(
                self._payloads, self._specs, keys(self._collectives.rank), verdicts, strict=True
            )
        ]
        self._compressor.decode_batch(rows, outs, threads=threads)
        return verdicts

    def _store_means(self) -> None:
        ends = {dtype: 0 for dtype in self._sums}
        ends[torch.float32] = COUNTS * len(self._specs)
        for dtype, section in self._sections():
            total = self._sums[dtype].narrow(0, ends[dtype], section.numel())
            ends[dtype] += section.numel()
            if dtype == torch.float32:
                torch.div(total, self._collectives.world_size, out=section)
            else:
                section.copy_(total)

    def _sections(self) -> Iterator[tuple[torch.dtype, torch.Tensor]]:
        for payload, spec in zip(self._payloads, self._specs, strict=True):
            for section in self._compressor.sections(spec.shape, spec.dtype):
                if section.dtype is not None:
                    yield section.dtype, payload[section.offset : section.offset + section.nbytes].view(section.dtype)
