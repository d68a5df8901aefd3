"""Times what a plan's costs are made from, on this machine and process group.

Ranks of one machine measure at the same time, as they work at the same time in a step. Of several ranks the slowest
counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from itertools import cycle

import torch

from compll.runtime.collectives import Collectives
from compll.runtime.compressor import Compressor
from compll.runtime.planning.codec_probes import codec_samples
from compll.runtime.planning.group_probes import agreed, collective_samples, crowding_sample, meet
from compll.runtime.planning.samples import Sample
from compll.runtime.planning.timing import REPEATS, Timed, cold_copies, nothing, times_longer, typical

#: What is measured first: elements, and how many times as many each next time; bytes of the smallest message.
SMALLEST = 1 << 12
STEP = 4
FEW_BYTES = 1 << 10


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
    """What no compressor has a part in: copies, collectives of every scope, and on the CPU what shared cores cost."""
    sizes = sizes_up_to(largest)
    yield from copy_samples(sizes, repeats=repeats, device=device)
    for scope, collectives in groups.items():
        yield from collective_samples(collectives, [FEW_BYTES, *(4 * n for n in sizes)], repeats=repeats, scope=scope)
    if device == "cpu":
        everyone = groups.get("all")
        together = partial(meet, everyone) if everyone else nothing
        yield sharing_sample(sizes[-1], threads=threads, repeats=repeats, together=together)
        if everyone:
            yield crowding_sample(everyone, 4 * sizes[-1], threads=threads, repeats=repeats)


def copy_samples(sizes: Iterable[int], *, repeats: int = REPEATS, device: str = "cpu") -> Iterator[Sample]:
    """What dense messages do before and after their all-reduce, in f32 and through bf16; half of both together."""
    for size in sizes:
        for operation, dtype in (("copy", torch.float32), ("cast", torch.bfloat16)):
            yield Sample(operation=operation, size=size, seconds=_copying(size, dtype, repeats, device))


def _copying(size: int, dtype: torch.dtype, repeats: int, device: str) -> float:
    gradients = cycle([torch.ones(size, device=device) for _ in range(cold_copies(size))])

    def there_and_back() -> None:
        gradient = next(gradients)
        gradient.copy_(torch.cat([gradient]).mul_(1.0).to(dtype))

    return typical(there_and_back, repeats, device) / 2


def sharing_sample(size: int, *, threads: int, repeats: int = REPEATS, together: Timed = nothing) -> Sample:
    """How many times longer a copy of `size` elements takes beside other work of the same rank."""
    pairs = cycle([(torch.ones(size), torch.ones(size)) for _ in range(cold_copies(size))])

    def copy() -> None:
        target, source = next(pairs)
        target.copy_(source)

    times = times_longer(lambda: typical(copy, repeats=1), threads, repeats, together)
    return Sample(operation="sharing", size=1, seconds=times)
