"""Times encode and decode on gradients that have not been touched for a while, as in a step: caches are cold."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial

import torch

from compll.runtime.compressor import Compressor
from compll.runtime.key import Key
from compll.runtime.planning.samples import Sample
from compll.runtime.planning.timing import REPEATS, cold_copies, typical

#: Of a measured gradient, where it has so many elements: a layer's usual width.
COLUMNS = 1024
DEVIATION = 1e-3

#: One more payload of a mean costs the difference, shared out.
FEW_PAYLOADS, MANY_PAYLOADS = 2, 6

#: So does one more gradient in a call; small ones, of which nothing else is seen.
FEW, MANY = 1, 9
SMALL = (8, 8)

#: A gradient's next values lie so many elements further along, so often.
SHIFT, SHIFTS = 16, 256


def codec_samples(
    compressor: Compressor, sizes: Iterable[int], *, threads: int, repeats: int = REPEATS, device: str = "cpu"
) -> Iterator[Sample]:
    """Encode with the declared feedback, decode, and decode-and-add of f32 gradients of `sizes` elements to a mean; and
    what more gradients in one call cost."""
    time = partial(typical, repeats=repeats, device=device)
    for size in sizes:
        columns = min(size, COLUMNS)
        codec = _TakingTurns(compressor, (size // columns, columns), threads, device)
        few, many = (time(partial(codec.decode, payloads=number)) for number in (FEW_PAYLOADS, MANY_PAYLOADS))
        add = max(0.0, many - few) / (MANY_PAYLOADS - FEW_PAYLOADS)
        elements = codec.shape.numel()
        yield Sample(operation="encode", size=elements, seconds=time(codec.encode))
        yield Sample(operation="decode", size=elements, seconds=max(0.0, few - (FEW_PAYLOADS - 1) * add))
        yield Sample(operation="decode_add", size=elements, seconds=add)
    small = _TakingTurns(compressor, SMALL, threads, device)
    for operation, work in (("encode_each", small.encode), ("decode_each", small.decode)):
        one, many = (time(partial(work, together=number)) for number in (FEW, MANY))
        yield Sample(operation=operation, size=1, seconds=max(0.0, many - one) / (MANY - FEW))


class _TakingTurns:
    """Gradients of one shape with their states, payloads and results, as many as take turns."""

    def __init__(self, compressor: Compressor, shape: tuple[int, ...], threads: int, device: str) -> None:
        self.shape, self._compressor, self._threads = torch.Size(shape), compressor, threads
        count = cold_copies(self.shape.numel())
        generator = torch.Generator(device).manual_seed(0)
        self._pools = [
            torch.empty(self.shape.numel() + SHIFT * SHIFTS, device=device).normal_(0.0, DEVIATION, generator=generator)
            for _ in range(count)
        ]
        self._outs = [torch.zeros(self.shape, device=device) for _ in range(count)]
        self._states = [compressor.init_state(out) for out in self._outs]
        self._payloads = [
            compressor.encode(self._gradient(copy, 0), state) for copy, state in enumerate(self._states)
        ]
        self._turn = 0

    def encode(self, together: int = 1) -> None:
        """Each time other values: residuals must not pile up."""
        step, copies = self._next(together)
        gradients = [self._gradient(copy, step) for copy in copies]
        outs = [self._payloads[copy].buffer.zero_() for copy in copies]
        states = [self._states[copy] for copy in copies]
        self._compressor.encode_batch(gradients, states, [Key(step=step)] * together, outs, threads=self._threads)

    def decode(self, together: int = 1, payloads: int = 1) -> None:
        _, copies = self._next(together)
        rows = [[self._payloads[copy]] * payloads for copy in copies]
        self._compressor.decode_batch(rows, [self._outs[copy] for copy in copies], threads=self._threads)

    def _next(self, together: int) -> tuple[int, list[int]]:
        first, self._turn = self._turn, self._turn + together
        return first // len(self._pools), [(first + i) % len(self._pools) for i in range(together)]

    def _gradient(self, copy: int, step: int) -> torch.Tensor:
        start = SHIFT * (step % SHIFTS)
        return self._pools[copy][start : start + self.shape.numel()].view(self.shape)
