"""Times collectives, and lets ranks agree on what they have measured."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

import torch

from compll.runtime.collectives import Collectives, Handle
from compll.runtime.dealing import dealt
from compll.runtime.planning.links import COLLECTIVES
from compll.runtime.planning.samples import Sample
from compll.runtime.planning.timing import REPEATS, nothing, times_longer, typical

#: A collective's result on one rank is not measured beyond this, in bytes.
LARGEST_RESULT = 1 << 28

#: Messages are timed in rows of so many bytes, of so many messages at most: what a link lets through at once after a
#: rest is a small part of that, and waking threads up takes now short, now long.
ROW_BYTES, LONGEST_ROW = 1 << 22, 16


def collective_samples(
    collectives: Collectives, sizes: Iterable[int], *, repeats: int = REPEATS, scope: str = "all"
) -> Iterator[Sample]:
    """Every collective with `sizes` bytes handed in by each rank; all ranks call this together, with equal sizes."""
    if collectives.world_size == 1:
        return
    for size in sizes:
        for operation in COLLECTIVES:
            if operation == "all_gather" and size * collectives.world_size > LARGEST_RESULT:
                continue
            begin, runs = _collective(collectives, operation, size), min(LONGEST_ROW, max(1, ROW_BYTES // size))
            seconds = typical(lambda: begin().wait(), repeats, before=lambda: meet(collectives), runs=runs)
            yield Sample(operation=operation, size=size, seconds=seconds, scope=scope)


def crowding_sample(collectives: Collectives, size: int, *, threads: int, repeats: int = REPEATS) -> Sample:
    """How many times longer an all-reduce of `size` bytes takes while its ranks compute, which call this together."""
    begin = _collective(collectives, "all_reduce", size)

    def reducing() -> float:
        return typical(lambda: begin().wait(), 1, before=lambda: meet(collectives), runs=1)

    return Sample(operation="crowding", size=1, seconds=times_longer(reducing, threads, repeats))


def agreed(collectives: Collectives, samples: Sequence[Sample]) -> list[Sample]:
    """The samples with the time of the slowest rank, equal on all ranks; all have the same ones in the same order."""
    mine = torch.tensor([sample.seconds for sample in samples], dtype=torch.float64)
    everyone = torch.empty(collectives.world_size * len(mine), dtype=torch.float64)
    collectives.all_gather(everyone, mine, nothing).wait()
    slowest = everyone.view(collectives.world_size, -1).amax(0).tolist()
    return [replace(sample, seconds=seconds) for sample, seconds in zip(samples, slowest, strict=True)]


def _collective(collectives: Collectives, operation: str, size: int) -> Callable[[], Handle]:
    ranks = collectives.world_size
    source, result = torch.zeros(size, dtype=torch.uint8), torch.empty(size, dtype=torch.uint8)
    match operation:
        case "all_reduce":
            floats = torch.zeros(max(1, size // 4))
            return lambda: collectives.all_reduce([floats], nothing)
        case "all_gather":
            gathered = torch.empty(size * ranks, dtype=torch.uint8)
            return lambda: collectives.all_gather(gathered, source, nothing)
        case "all_to_all":
            shares = dealt(size, ranks)
            mine = shares[collectives.rank]
            received = torch.empty(mine * ranks, dtype=torch.uint8)
            return lambda: collectives.all_to_all(received, [mine] * ranks, source, shares, nothing)
        case _:
            return lambda: collectives.shift(result, source, nothing)


def meet(collectives: Collectives) -> None:
    """Wait until all ranks are here."""
    collectives.all_reduce([torch.zeros(1)], nothing).wait()
