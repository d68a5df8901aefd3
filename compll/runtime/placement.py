"""Which device a model's gradients are on, and what else must be there for it; said at once, by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch
from torch import nn

from compll.diagnostics import UnsupportedError

WORKING = ("cpu", "cuda")


def device_of(gradients: Mapping[str, torch.device]) -> torch.device:
    """The one device of all gradients, by the parameters' names; the CPU where there are none.

    Raises UnsupportedError for a device that is neither the CPU nor a CUDA one, or for a second one.
    """
    found: dict[torch.device, str] = {}
    for name, device in gradients.items():
        if device.type not in WORKING:
            raise UnsupportedError(f"the hook needs gradients on the CPU or a CUDA device, `{name}` is on `{device}`")
        found.setdefault(device, name)
    if len(found) > 1:
        (one, first), (other, second) = list(found.items())[:2]
        raise UnsupportedError(
            f"all gradients of a model need to be on one device, `{first}` is on `{one}` and `{second}` on `{other}`"
        )
    return next(iter(found), torch.device("cpu"))


def check_plan(device: torch.device, plan: str) -> None:
    """Raise UnsupportedError for a plan that would be made from what is not measured on this device."""
    if device.type == "cuda" and plan == "auto":
        raise UnsupportedError(
            f"plan='auto' measures on the CPU, the gradients of this model are on `{device}`: give a strategy, or the "
            "path of a plan"
        )


def other_collectives(module: nn.Module, finds_unused: bool) -> Iterator[str]:
    """What starts collectives beside compll's during backward. On a GPU they come from another thread and go through
    another NCCL communicator, in no common order, which NVIDIA advises against."""
    if any(isinstance(each, nn.SyncBatchNorm) for each in module.modules()):
        yield "SyncBatchNorm"
    if finds_unused:
        yield "find_unused_parameters=True"
