"""The tensors of one encode or decode: where results go, and how they get back into the caller's dtype and format."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from compll.diagnostics import CompllError
from compll.runtime.checks import ALIGNMENT, check_bytes
from compll.runtime.key import Key
from compll.runtime.payload import Payload
from compll.runtime.program import Sized
from compll.runtime.rounding import round_into


def out_buffer(owner: str, sized: Sized, grad: torch.Tensor, out: torch.Tensor | None) -> torch.Tensor:
    """A zeroed payload buffer: `out` if given and fit, else a fresh one."""
    if out is None:
        return torch.zeros(sized.payload_nbytes, dtype=torch.uint8, device=grad.device)
    check_bytes(out, sized.payload_nbytes, grad.device, owner=owner)
    if out.data_ptr() % ALIGNMENT:
        raise CompllError(f"`out` needs to start at a multiple of {ALIGNMENT} bytes")
    return out.zero_()


def new_payload(buffer: torch.Tensor, grad: torch.Tensor, key: Key) -> Payload:
    """A payload to encode into, with room for what encode reports."""
    finite = torch.ones(1, dtype=torch.bool, device=grad.device)
    cut = torch.zeros(1, dtype=torch.int32, device=grad.device)
    return Payload(buffer=buffer, shape=grad.shape, dtype=grad.dtype, key=key, reports=(finite, cut))


def encode_arrays(sized: Sized, grad: torch.Tensor, payload: Payload) -> dict[str, torch.Tensor]:
    """What encode reads and writes, states aside; the gradient in logical order whatever its memory format."""
    arrays = {"gradient": grad.detach().contiguous().view(-1), "payload": payload.buffer}
    if payload.reports is not None:
        arrays["finite"], arrays["cut"] = payload.reports
    if not sized.has_payload:
        arrays["out"] = payload.buffer.view(torch.float32)
    return arrays


def accumulator(out: torch.Tensor, *, add: bool) -> torch.Tensor:
    """A contiguous f32 tensor to sum into: `out` itself where it is one; with `add` it starts from what `out` holds."""
    if out.dtype == torch.float32 and out.is_contiguous():
        return out
    if add:
        return out.to(torch.float32, memory_format=torch.contiguous_format, copy=True)
    return torch.empty(out.shape, dtype=torch.float32, device=out.device)


def store(totals: Sequence[torch.Tensor], outs: Sequence[torch.Tensor]) -> None:
    """Round each sum once into where it is wanted, unless it is there already."""
    for total, out in zip(totals, outs, strict=True):
        if total is not out:
            round_into(total, out)
