"""What a call needs of kinds and of tensors, in one voice: each check returns nothing or raises CompllError."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from compll.diagnostics import CompllError

ALIGNMENT = 4  # bytes; every section of a payload starts at a multiple of it
MAX_SHOWN = 60  # characters of a value


def shown(value: object) -> str:
    """A value in a message: itself where it is short and plain, else its type."""
    plain = value is None or isinstance(value, (bool, int, float, str, bytes, list, tuple, dict))
    text = repr(value) if plain else ""
    return text if 0 < len(text) <= MAX_SHOWN else f"an object of type {type(value).__name__}"


def check_kind(value: object, kind: type | tuple[type, ...], what: str, need: str) -> None:
    """`need` is the kind in words."""
    if not isinstance(value, kind):
        raise CompllError(f"`{what}` needs {need}, got {shown(value)}")


def check_tensor(value: object, what: str) -> None:
    check_kind(value, torch.Tensor, what, "a tensor")


def check_shape(tensor: torch.Tensor, shape: Sequence[int], what: str) -> None:
    check_tensor(tensor, what)
    if tuple(tensor.shape) != tuple(shape):
        raise CompllError(f"`{what}` needs shape {tuple(shape)}, got {tuple(tensor.shape)}")


def check_held(tensor: torch.Tensor, shape: Sequence[int], dtype: torch.dtype, device: torch.device, what: str) -> None:
    """A tensor that kernels update in place."""
    check_shape(tensor, shape, what)
    check_device(tensor, device, what)
    if tensor.dtype != dtype or not tensor.is_contiguous():
        kind = "contiguous" if tensor.is_contiguous() else "strided"
        raise CompllError(f"`{what}` needs a contiguous tensor of {dtype}, got a {kind} one of {tensor.dtype}")


def check_float(tensor: torch.Tensor, what: str) -> None:
    if not tensor.is_floating_point():
        raise CompllError(f"`{what}` needs a floating-point tensor, got {tensor.dtype}")


def check_dense(tensor: torch.Tensor, what: str) -> None:
    if tensor.layout != torch.strided:
        raise CompllError(f"`{what}` needs a dense tensor, got layout {tensor.layout}")


def check_device(tensor: torch.Tensor, device: torch.device, what: str) -> None:
    """What one launch reads and writes lies on one device: kernels get addresses and cannot tell."""
    if tensor.device != device:
        raise CompllError(f"`{what}` needs to be on `{device}`, got `{tensor.device}`")


def check_bytes(buffer: torch.Tensor, nbytes: int, device: torch.device, *, owner: str) -> None:
    """A payload buffer of the program `owner`: contiguous, 1-D, uint8, of exactly `nbytes`, on `device`."""
    if not isinstance(buffer, torch.Tensor):
        raise CompllError(f"payload of `{owner}` needs a tensor, got {shown(buffer)}")
    if buffer.dtype != torch.uint8 or buffer.dim() != 1 or not buffer.is_contiguous():
        raise CompllError(
            f"payload of `{owner}` needs a contiguous 1-D torch.uint8 tensor, got {buffer.dim()}-D {buffer.dtype}"
        )
    if buffer.numel() != nbytes:
        raise CompllError(f"payload of `{owner}` needs {nbytes} bytes for this gradient, got {buffer.numel()}")
    if buffer.device != device:
        raise CompllError(f"payload of `{owner}` needs to be on `{device}`, got `{buffer.device}`")


def aligned(buffer: torch.Tensor) -> torch.Tensor:
    """The buffer itself, or a copy where it starts between two words."""
    return buffer.clone() if buffer.data_ptr() % ALIGNMENT else buffer
