"""Every rank gets every payload: one all-gather for each bucket, then decode and add in rank order."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from compll.runtime.collectives import Collectives, Handle
from compll.runtime.compressor import Compressor
from compll.runtime.envelope import Envelope, Verdict
from compll.runtime.gradients import GradientSpec
from compll.runtime.key import Key
from compll.runtime.payload import Payload
from compll.runtime.strategies.memory import Arena


class AllGather:
    """The strategy that works for every program."""

    def __init__(self, collectives: Collectives) -> None:
        self._collectives = collectives
        self._arena = Arena()

    def open(
        self, bucket: int, specs: Sequence[GradientSpec], compressor: Compressor, device: torch.device
    ) -> AllGatherExchange:
        envelope = Envelope(tuple(compressor.payload_bytes(s.shape, s.dtype) for s in specs))
        sent = self._arena.get((bucket, "sent"), envelope.nbytes, torch.uint8, device).zero_()
        size = envelope.nbytes * self._collectives.world_size
        received = self._arena.get((bucket, "received"), size, torch.uint8, device)
        return AllGatherExchange(self._collectives, compressor, specs, envelope, sent, received)


class AllGatherExchange:
    def __init__(
        self,
        collectives: Collectives,
        compressor: Compressor,
        specs: Sequence[GradientSpec],
        envelope: Envelope,
        sent: torch.Tensor,
        received: torch.Tensor,
    ) -> None:
        self._collectives = collectives
        self._compressor = compressor
        self._specs = specs
        self._envelope = envelope
        self._sent = sent
        self._received = received
        self._handle: Handle | None = None

    @property
    def payloads(self) -> Sequence[torch.Tensor]:
        return self._envelope.payloads(self._sent)

    @property
    def bytes_sent(self) -> int:
        return self._envelope.nbytes

    def start(self, flags: Sequence[int], done: Callable[[], None]) -> None:
        self._envelope.write_flags(self._sent, flags)
        self._handle = self._collectives.all_gather(self._received, self._sent, done)

    def wait(self) -> None:
        if self._handle is not None:
            self._handle.wait()

    def merge(self, outs: Sequence[torch.Tensor], keys: Callable[[int], Sequence[Key]], threads: int) -> list[Verdict]:
        by_rank = [self._payloads_of(rank, keys(rank)) for rank in range(self._collectives.world_size)]
        flags = [self._envelope.read_flags(self._row(rank)) for rank in range(self._collectives.world_size)]
        verdicts = [Verdict.of(f) for f in zip(*flags, strict=True)]
        if any(verdict.failed for verdict in verdicts):
            return verdicts
        rows = [
            [payload if here else None for payload, here in zip(payloads, verdict.present, strict=True)]
            for payloads, verdict in zip(zip(*by_rank, strict=True), verdicts, strict=True)
        ]
        self._compressor.decode_batch(rows, outs, threads=threads)
        return verdicts

    def _row(self, rank: int) -> torch.Tensor:
        return self._received.narrow(0, rank * self._envelope.nbytes, self._envelope.nbytes)

    def _payloads_of(self, rank: int, keys: Sequence[Key]) -> list[Payload]:
        buffers = self._envelope.payloads(self._row(rank))
        return [
            Payload(buffer=buffer, shape=spec.shape, dtype=spec.dtype, key=key)
            for buffer, spec, key in zip(buffers, self._specs, keys, strict=True)
        ]
