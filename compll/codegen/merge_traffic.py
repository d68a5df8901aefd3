"""What merging payloads moves through memory: the model of `traffic` for several payloads of one gradient."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from compll.codegen.plan import KernelPlan
from compll.codegen.traffic import Traffic, traffic
from compll.codegen.walks import MERGED, merges_in_one_walk

SUM_BYTES = 4.0  # of an element


def merge_traffic(plans: Mapping[str, KernelPlan], environment: Mapping[str, float], payloads: int) -> Traffic:
    """The sum of so many payloads (2 or more), divided; `environment` as for `traffic`.

    One walk reads all payloads and writes the mean. Else each payload has its own passes, and the division reads and
    writes the sum (on a GPU it writes less where most is zero).
    """
    first, other = (traffic(plans[name], environment) for name in MERGED)
    more = payloads - 1
    floor = payloads * first.floor_bytes_per_element - more * SUM_BYTES
    kernels = tuple(_kernels(plans))
    if merges_in_one_walk(plans):
        passes, moved = 1, payloads * first.bytes_per_element - more * SUM_BYTES
    else:
        passes = first.passes + more * other.passes + 1
        moved = first.bytes_per_element + more * other.bytes_per_element + 2 * SUM_BYTES
    return Traffic(
        passes=passes, bytes_per_element=moved, floor_bytes_per_element=min(floor, moved), kernels=kernels
    )  # fmt: skip


def _kernels(plans: Mapping[str, KernelPlan]) -> Iterator[tuple[str, str, str]]:
    if merges_in_one_walk(plans):
        kernel = plans[MERGED[0]].kernels[0]
        yield "merge", kernel.pattern, kernel.name
        return
    for function in MERGED:
        for kernel in plans[function].kernels:
            yield "merge", kernel.pattern, kernel.name
    yield "merge", "map", "divide"
