"""Encode and decode as torch operators: `torch.ops.compll.encode`, `decode` and `form_residual`, for every device.

An operator names its compressor by its handle (`Compressor.handle`), a key by its words, a state by its tensors
(`State.parts`). Where torch.compile traces, `Compressor.encode` and `decode` are made of `traced_encode` and
`traced_decode`; elsewhere they do without. Nothing is computed here.

The shape of a gradient becomes a constant of what is compiled: payload sizes are float64 formulas, which symbolic
arithmetic, free to reorder, would not round in the same way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from compll.runtime.checks import check_bytes
from compll.runtime.handles import Handles
from compll.runtime.key import Key
from compll.runtime.payload import Payload
from compll.runtime.state import State

if TYPE_CHECKING:
    from compll.runtime.compressor import Compressor

compressors: Handles[Compressor] = Handles("compressor")

#: Launch tables are made on the host for every call: a captured graph would repeat the first one's.
TAGS = (torch.Tag.cudagraph_unsafe,)


# --- operators -------------------------------------------------------------------------------------------------------


@torch.library.custom_op("compll::encode", mutates_args={"state"}, tags=TAGS)
def encode(
    compressor: str,
    grad: torch.Tensor,
    state: list[torch.Tensor],
    initial: bool,
    seed: int,
    step: int,
    gradient: int,
    rank: int,
    hop: int = 0,
    base: int = 0,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Payload (uint8 [payload_bytes]), `finite` (bool [1]) and `cut` (int32 [1]) of a gradient.

    `state` holds a state's tensors, which are updated in place; with `initial` it is empty, and the initial state is
    used and given up. Raises as `Compressor.encode` does, and for another number of tensors than needed.
    """
    owner = compressors.find(compressor)
    held = None if initial else owner.state_of(grad, state)
    payload = owner.encode(grad, held, key=Key(seed=seed, step=step, gradient=gradient, rank=rank, hop=hop, base=base))
    if held is not None and len(held.parts()) > len(state):
        held.join()  # the residual came in one part, and the caller has no tensor for a second
    assert payload.reports is not None
    return payload.buffer, *payload.reports


@encode.register_fake
def _encode_fake(
    compressor: str,
    grad: torch.Tensor,
    state: list[torch.Tensor],
    initial: bool,
    seed: int,
    step: int,
    gradient: int,
    rank: int,
    hop: int = 0,
    base: int = 0,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    nbytes = compressors.find(compressor).payload_bytes([int(size) for size in grad.shape], grad.dtype)
    payload = grad.new_empty(nbytes, dtype=torch.uint8)
    return payload, grad.new_empty(1, dtype=torch.bool), grad.new_empty(1, dtype=torch.int32)


@torch.library.custom_op("compll::decode", mutates_args={"out"}, tags=TAGS)
def decode(
    compressor: str,
    buffer: torch.Tensor,
    out: torch.Tensor,
    dtype: torch.dtype,
    add: bool,
    seed: int,
    step: int,
    gradient: int,
    rank: int,
    hop: int = 0,
    base: int = 0,
) -> None:
    """Write what a payload stands for to `out`, which has the gradient's shape, or add it there.

    `dtype` is the gradient's, the key words are the sender's. Raises as `Compressor.payload` and `decode` do.
    """
    key = Key(seed=seed, step=step, gradient=gradient, rank=rank, hop=hop, base=base)
    payload = Payload(buffer=buffer, shape=out.shape, dtype=dtype, key=key)
    compressors.find(compressor).decode(payload, out=out, add=add)


@decode.register_fake
def _decode_fake(
    compressor: str,
    buffer: torch.Tensor,
    out: torch.Tensor,
    dtype: torch.dtype,
    add: bool,
    seed: int,
    step: int,
    gradient: int,
    rank: int,
    hop: int = 0,
    base: int = 0,
) -> None:
    return None


@torch.library.custom_op("compll::form_residual", mutates_args={"residual"}, tags=TAGS)
def form_residual(compressor: str, residual: torch.Tensor, previous: torch.Tensor, dtype: torch.dtype) -> None:
    """Subtract from `residual` (f32) what the payload `previous` stands for; `dtype` is the gradient's."""
    compressors.find(compressor).form_residual(residual, previous, dtype)


@form_residual.register_fake
def _form_residual_fake(compressor: str, residual: torch.Tensor, previous: torch.Tensor, dtype: torch.dtype) -> None:
    return None


# --- what torch.compile traces ---------------------------------------------------------------------------------------


def traced_encode(
    compressor: Compressor, grad: torch.Tensor, state: State | None, key: Key, out: torch.Tensor | None
) -> Payload:
    """`Compressor.encode`, of operators."""
    if state is not None:
        compressor.join_other_form(state)
    parts = [] if state is None else state.parts()
    words = (key.seed, key.step, key.gradient, key.rank, key.hop, key.base)
    buffer, finite, cut = encode(compressor.handle, grad.detach(), parts, state is None, *words)
    if state is not None and state.previous is not None:
        state.previous.fresh = True
    if out is not None:
        check_bytes(out, buffer.numel(), grad.device, owner=compressor.name)
        buffer = out.copy_(buffer)
    return Payload(buffer=buffer, shape=grad.shape, dtype=grad.dtype, key=key, reports=(finite, cut))


def traced_decode(compressor: Compressor, payload: Payload, out: torch.Tensor, *, add: bool) -> None:
    """`Compressor.decode` into `out`, of operators."""
    key = payload.key
    words = (key.seed, key.step, key.gradient, key.rank, key.hop, key.base)
    decode(compressor.handle, payload.buffer, out, payload.dtype, add, *words)


def joined(compressor: Compressor, dtype: torch.dtype, held: torch.Tensor, payload: torch.Tensor) -> None:
    """The residual in place, traced or not; holds the compressor that the handle names."""
    form_residual(compressor.handle, held, payload, dtype)
