"""What public calls need of their arguments, whatever these turn out to be: each function raises CompllError with the
argument's name, the need and what was found. Kinds and tensors as such are in `checks`."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from compll.diagnostics import CompllError
from compll.runtime.checks import check_float, check_kind, check_shape, check_tensor, shown
from compll.runtime.key import Key
from compll.runtime.payload import Payload
from compll.runtime.state import State


def check_flag(value: object, what: str) -> None:
    check_kind(value, bool, what, "True or False")


def key_of(key: object) -> Key:
    """The key itself; the first one there is for None."""
    check_kind(key, (Key, type(None)), "key", "a compll.Key or None")
    return key if isinstance(key, Key) else Key()


def check_payload(payload: object) -> None:
    """A Payload, which anybody may have put together."""
    check_kind(payload, Payload, "payload", "a compll.Payload")
    assert isinstance(payload, Payload)
    check_tensor(payload.buffer, "payload.buffer")
    check_kind(payload.shape, (torch.Size, tuple), "payload.shape", "a shape")
    check_kind(payload.dtype, torch.dtype, "payload.dtype", "a torch.dtype")
    check_kind(payload.key, Key, "payload.key", "a compll.Key")


def check_encoded(grads: Any, states: Any, keys: Any, outs: Any) -> None:
    """What a batch is encoded from, and into."""
    _check_sequences("encode", grads=grads, states=states, keys=keys, **({} if outs is None else {"outs": outs}))
    for grad, state, key in zip(grads, states, keys, strict=True):
        check_tensor(grad, "grad")
        check_kind(state, State, "state", "a compll.State")
        check_kind(key, Key, "key", "a compll.Key")


def check_decoded(payloads: Any, outs: Any) -> None:
    """What a batch is decoded from, and into: kernels get addresses, and would write beyond the end of a short one."""
    _check_sequences("decode", outs=outs, payloads=payloads)
    for row, out in zip(payloads, outs, strict=True):
        _check_sequences("decode", row=row)
        check_tensor(out, "out")
        check_float(out, "out")
        for payload in row:
            if payload is not None:
                check_kind(payload, Payload, "payload", "a compll.Payload or None")
                check_shape(out, payload.shape, "out")


def _check_sequences(call: str, **given: object) -> None:
    """Sequences of equal length, by name; the first says how many there have to be."""
    lengths = {}
    for name, value in given.items():
        if not isinstance(value, Sequence) or isinstance(value, (str, bytes)):
            raise CompllError(f"{call}: `{name}` needs a list, got {shown(value)}")
        lengths[name] = len(value)
    first, *others = lengths
    for name in others:
        if lengths[name] != lengths[first]:
            raise CompllError(f"{call}: `{name}` needs as many as `{first}`, {lengths[first]}, got {lengths[name]}")


def check_threads(threads: object) -> None:
    if threads is None or (isinstance(threads, int) and not isinstance(threads, bool) and 0 < threads < 1 << 15):
        return
    raise CompllError(f"`threads` needs a whole number in [1, 32768) or None, got {shown(threads)}")


def shape_of(shape: Any) -> torch.Size:
    """A shape from whole numbers of at least 0."""
    if isinstance(shape, torch.Size):
        return shape
    try:
        extents = [operator.index(extent) for extent in shape]
    except (TypeError, RuntimeError):
        extents = [-1]
    if isinstance(shape, (str, bytes, Mapping)) or any(not 0 <= extent < 1 << 63 for extent in extents):
        raise CompllError(f"`shape` needs whole numbers of at least 0, got {shown(shape)}")
    return torch.Size(extents)
