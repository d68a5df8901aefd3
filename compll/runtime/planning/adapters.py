"""What the runtime has, as the planner needs it."""

from __future__ import annotations

import torch

from compll.runtime.compressor import Compressor
from compll.runtime.gradients import GradientSpec
from compll.runtime.planning.costs import PayloadBytes
from compll.runtime.planning.jobs import Gradient
from compll.runtime.strategies import default_strategy


def strategies_of(compressor: Compressor) -> tuple[str, ...]:
    """The strategies of a plan that this program allows; `hierarchical` needs nodes of several ranks, too."""
    usual = default_strategy(compressor)
    if usual == "rounds":
        return ("rounds",)
    return (*dict.fromkeys(("allgather", usual)), "ps", "ring", "hierarchical")


def planned(spec: GradientSpec, *, bucket: int, ready_s: float) -> Gradient:
    """A gradient of a model as plans are made for it; `ready_s` in seconds from the start of a step."""
    dtype = str(spec.dtype).removeprefix("torch.")
    return Gradient(
        name=spec.name, shape=tuple(spec.shape), dtype=dtype, bucket=bucket, ready_s=ready_s,
        compressible=spec.compressible,
    )  # fmt: skip


def payload_size(compressor: Compressor) -> PayloadBytes:
    """What a rank hands to collectives for a gradient, by shape and name of the dtype: the size of its payload, or
    where the program reduces on the way and has none, of all that is reduced."""
    if compressor.replicated:
        return lambda shape, dtype: 4 * sum(compressor.round_sizes(torch.empty(shape, dtype=getattr(torch, dtype))))
    return lambda shape, dtype: compressor.payload_bytes(shape, getattr(torch, dtype))
