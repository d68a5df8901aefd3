"""Times what a plan's costs are made from, on this machine and process group.

Every operation is timed several times after a warm-up, and counts with its median: ranks of one machine measure at the
same time, as they work at the same time in a step. Of several ranks the slowest counts. What is encoded and decoded has
not been touched for a while, as in a step: caches are cold.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from itertools import cycle

import torch

from compll.runtime.collectives import Collectives
from compll.runtime.compressor import Compressor
from compll.runtime.key import Key
from compll.runtime.planning.group_probes import agreed, collective_samples
from compll.runtime.planning.samples import Sample
from compll.runtime.planning.timing import REPEATS, typical

#: What is measured first: elements, and by how much more each next time; bytes of the smallest message.
SMALLEST = 1 << 12
STEP = 4
FEW_BYTES = 1 << 10

#: Of a measured gradient, where it has so many elements: a layer's usual width.
COLUMNS = 1024
DEVIATION = 1e-3
MORE_PAYLOADS = 4

#: So many gradients take turns, or fewer that together are larger than caches, in bytes.
MOST_COPIES = 8
COLD_BYTES = 1 << 28
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
    mine = [*shared_samples(groups, largest=largest, repeats=repeats)]
    mine += codec_samples(compressor, sizes_up_to(largest), threads=threads, repeats=repeats)
    return agreed(groups["all"], mine)


def shared_samples(
    groups: Mapping[str, Collectives], *, largest: int, repeats: int = REPEATS, device: str = "cpu"
) -> Iterator[Sample]:
    """What no compressor has a part in: copies, and the collectives of every scope (on the CPU)."""
    sizes = sizes_up_to(largest)
    yield from copy_samples(sizes, repeats=repeats, device=device)
    for scope, collectives in groups.items():
        yield from collective_samples(collectives, [FEW_BYTES, *(4 * n for n in sizes)], repeats=repeats, scope=scope)


def codec_samples(
    compressor: Compressor, sizes: Iterable[int], *, threads: int, repeats: int = REPEATS, device: str = "cpu"
) -> Iterator[Sample]:
    """Encode with the declared feedback, decode, and decode-and-add of f32 gradients of `sizes` elements; and what more
    gradients in one call cost."""
    for size in sizes:
        columns = min(size, COLUMNS)
        shape = (size // columns, columns)
        elements = shape[0] * columns
        generator = torch.Generator(device).manual_seed(0)
        count = max(1, min(MOST_COPIES, COLD_BYTES // (8 * elements)))
        pools = [
            torch.empty(elements + COLUMNS * repeats, device=device).normal_(0.0, DEVIATION, generator=generator)
            for _ in range(count)
        ]
        outs = [torch.zeros(shape, device=device) for _ in range(count)]
        states = [compressor.init_state(out) for out in outs]
        payloads = [compressor.encode(p[:elements].view(shape), state) for p, state in zip(pools, states, strict=True)]
        turns = cycle(range(count * repeats))

        def encode() -> None:
            turn = next(turns)
            copy, shift = turn % count, 16 * (turn // count)
            gradient = pools[copy][shift : shift + elements].view(shape)  # fresh values: residuals must not pile up
            out = payloads[copy].buffer.zero_()
            compressor.encode_batch([gradient], [states[copy]], [Key(step=turn)], [out], threads=threads)

        def decode(number: int) -> None:
            copy = next(turns) % count
            compressor.decode_batch([[payloads[copy]] * number], [outs[copy]], mean=False, threads=threads)

        yield Sample(operation="encode", size=elements, seconds=typical(encode, repeats, device))
        one = typical(lambda: decode(1), repeats, device)
        many = typical(lambda: decode(1 + MORE_PAYLOADS), repeats, device)
        yield Sample(operation="decode", size=elements, seconds=one)
        yield Sample(operation="decode_add", size=elements, seconds=max(0.0, many - one) / MORE_PAYLOADS)
    yield from _single_samples(compressor, threads, repeats, device)


def _single_samples(compressor: Compressor, threads: int, repeats: int, device: str) -> Iterator[Sample]:
    """What another gradient in the same call costs: small ones, many against one."""
    gradients = [torch.full((8, 8), DEVIATION, device=device) for _ in range(MANY)]
    states = [compressor.init_state(gradient) for gradient in gradients]
    payloads = [compressor.encode(gradient, state) for gradient, state in zip(gradients, states, strict=True)]

    def encode(count: int) -> None:
        outs = [payload.buffer.zero_() for payload in payloads[:count]]
        compressor.encode_batch(gradients[:count], states[:count], [Key()] * count, outs, threads=threads)

    def decode(count: int) -> None:
        compressor.decode_batch([[p] for p in payloads[:count]], gradients[:count], mean=False, threads=threads)

    for operation, work in (("encode_each", encode), ("decode_each", decode)):
        one, many = (typical(partial(work, count), repeats, device) for count in (1, MANY))
        yield Sample(operation=operation, size=1, seconds=max(0.0, many - one) / (MANY - 1))


def copy_samples(sizes: Iterable[int], *, repeats: int = REPEATS, device: str = "cpu") -> Iterator[Sample]:
    """What dense messages do before and after their all-reduce, in f32 and through bf16; half of both together."""
    for size in sizes:
        gradient = torch.ones(size, device=device)
        for operation, dtype in (("copy", torch.float32), ("cast", torch.bfloat16)):

            def there_and_back(dtype: torch.dtype = dtype, gradient: torch.Tensor = gradient) -> None:
                gradient.copy_(torch.cat([gradient]).mul_(1.0).to(dtype))

            yield Sample(operation=operation, size=size, seconds=typical(there_and_back, repeats, device) / 2)
