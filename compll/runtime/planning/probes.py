"""Times what a plan's costs are made from, on this machine and process group.

Ranks of one machine measure at the same time, as they work at the same time in a step. Of several ranks the slowest
counts. What is encoded and decoded has not been touched for a while, as in a step: caches are cold.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from itertools import cycle
from statistics import median

import torch

from compll.runtime.collectives import Collectives
from compll.runtime.compressor import Compressor
from compll.runtime.key import Key
from compll.runtime.planning.group_probes import agreed, collective_samples, crowding_sample
from compll.runtime.planning.samples import Sample
from compll.runtime.planning.timing import REPEATS, companion, typical

#: What is measured first: elements, and by how much more each next time; bytes of the smallest message.
SMALLEST = 1 << 12
STEP = 4
FEW_BYTES = 1 << 10

#: Of a measured gradient, where it has so many elements: a layer's usual width.
COLUMNS = 1024
DEVIATION = 1e-3
FEW_PAYLOADS, MANY_PAYLOADS = 2, 6  # of a mean

#: A gradient's next values lie so many elements further along, so often.
SHIFT, SHIFTS = 16, 256

#: So many gradients take turns, or fewer that together are larger than caches, in bytes.
MOST_COPIES = 64
COLD_BYTES = 1 << 28
SMALL = (8, 8)
MANY = 9


def sizes_up_to(largest: int) -> tuple[int, ...]:
    """The sizes at which something is measured, in elements."""
    sizes = [SMALLEST]
    while sizes[-1] * STEP <= largest:
        sizes.append(sizes[-1] * STEP)
    return tuple(sizes)


def probe(
    compressor: Compressor,
    groups: Mapping[str, Collectives],
    *,
    largest: int,
    threads: int,
    repeats: int = REPEATS,
) -> list[Sample]:
    """Everything that `auto.decide` needs of a compressor and its ranks; all ranks call this together.

    `groups` has the collectives by scope: `all`, and where there are nodes `node` and `across`. `largest` is the number
    of elements of the largest gradient. The result is the same on all ranks.
    """
    mine = [*shared_samples(groups, largest=largest, threads=threads, repeats=repeats)]
    mine += codec_samples(compressor, sizes_up_to(largest), threads=threads, repeats=repeats)
    return agreed(groups["all"], mine)


def shared_samples(
    groups: Mapping[str, Collectives], *, largest: int, threads: int, repeats: int = REPEATS, device: str = "cpu"
) -> Iterator[Sample]:
    """What no compressor has a part in: copies, and the collectives of every scope (on the CPU)."""
    sizes = sizes_up_to(largest)
    yield from copy_samples(sizes, repeats=repeats, device=device)
    for scope, collectives in groups.items():
        yield from collective_samples(collectives, [FEW_BYTES, *(4 * n for n in sizes)], repeats=repeats, scope=scope)
    if device == "cpu":
        yield sharing_sample(sizes[-1], threads=threads, repeats=repeats)
        if "all" in groups:
            yield crowding_sample(groups["all"], 4 * sizes[-1], threads=threads, repeats=repeats)


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
        one, many = (time(partial(work, together=number)) for number in (1, MANY))
        yield Sample(operation=operation, size=1, seconds=max(0.0, many - one) / (MANY - 1))


class _TakingTurns:
    """Gradients of one shape with their states, payloads and results, more than caches hold or MOST_COPIES."""

    def __init__(self, compressor: Compressor, shape: tuple[int, ...], threads: int, device: str) -> None:
        self.shape, self._compressor, self._threads = torch.Size(shape), compressor, threads
        count = _cold_copies(self.shape.numel())
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


def copy_samples(sizes: Iterable[int], *, repeats: int = REPEATS, device: str = "cpu") -> Iterator[Sample]:
    """What dense messages do before and after their all-reduce, in f32 and through bf16; half of both together."""
    for size in sizes:
        for operation, dtype in (("copy", torch.float32), ("cast", torch.bfloat16)):
            yield Sample(operation=operation, size=size, seconds=_copying(size, dtype, repeats, device))


def _copying(size: int, dtype: torch.dtype, repeats: int, device: str = "cpu") -> float:
    gradients = cycle([torch.ones(size, device=device) for _ in range(_cold_copies(size))])

    def there_and_back() -> None:
        gradient = next(gradients)
        gradient.copy_(torch.cat([gradient]).mul_(1.0).to(dtype))

    return typical(there_and_back, repeats, device) / 2


def sharing_sample(size: int, *, threads: int, repeats: int = REPEATS) -> Sample:
    """How many times longer a copy of `size` elements takes beside other work of the same rank."""
    pairs = cycle([(torch.ones(size), torch.ones(size)) for _ in range(_cold_copies(size))])

    def copy() -> None:
        target, source = next(pairs)
        target.copy_(source)

    def ratio() -> float:
        alone = typical(copy, repeats=1)
        with companion(threads):
            return typical(copy, repeats=1) / alone

    return Sample(operation="sharing", size=1, seconds=max(1.0, median(ratio() for _ in range(repeats))))


def _cold_copies(size: int) -> int:
    """How many gradients of `size` elements take turns."""
    return max(1, min(MOST_COPIES, COLD_BYTES // (8 * size)))
