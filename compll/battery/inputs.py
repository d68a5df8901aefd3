"""Shapes and gradients at which compressors go wrong. Every gradient is the same on every run and machine."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

Shape = tuple[int, ...]

LENGTHS = (0, 1, 2, 17, 31, 32, 33, 1023, 1024, 1025, 65537)
MATRICES: tuple[Shape, ...] = ((1, 64), (64, 1), (33, 65), (5, 7, 3), (64, 3, 3, 3), (7, 0), (257, 130))
SHAPES: tuple[Shape, ...] = (*((n,) for n in LENGTHS), *MATRICES)

#: For laws that are tried with many gradients at each shape.
FEW_SHAPES: tuple[Shape, ...] = ((1,), (2,), (17,), (1025,), (33, 65))


def numel(shape: Sequence[int]) -> int:
    return math.prod(shape)


def normal(shape: Sequence[int], seed: int = 0) -> Tensor:
    """Standard normal, from a generator of its own."""
    return torch.randn(tuple(shape), generator=torch.Generator().manual_seed(seed))


def heavy_tailed(shape: Sequence[int], seed: int = 0) -> Tensor:
    """Products of three normals: a few large elements among many small ones, like a real gradient."""
    return normal(shape, seed) * normal(shape, seed + 1000) * normal(shape, seed + 2000)


def finite_gradients(shape: Sequence[int]) -> Iterator[tuple[str, Tensor]]:
    """Named gradients without inf and NaN, zeros among them."""
    n = numel(shape)
    yield "normal", normal(shape)
    yield "heavy-tailed", heavy_tailed(shape)
    yield "zeros", torch.zeros(shape)
    yield "negative zeros", torch.full(shape, -0.0)
    yield "constant", torch.full(shape, 0.37)
    yield "negative constant", torch.full(shape, -2.5)
    yield "one-hot", _at(shape, n // 2, 3.0)
    yield "denormal", torch.full(shape, 1e-40) * normal(shape).sign()
    yield "+-1e30", 1e30 * normal(shape).sign()
    yield "1e30 and 1e-30", torch.where(normal(shape) > 0.5, 1e30, 1e-30)
    yield "ties", (normal(shape) * 2).round()
    yield "half zeros", normal(shape).clamp(min=0.0)


def non_finite_gradients(shape: Sequence[int]) -> Iterator[tuple[str, Tensor]]:
    """Named gradients with at least one inf or NaN (for a shape that has elements)."""
    n = numel(shape)
    for name, value in (("NaN", math.nan), ("inf", math.inf), ("-inf", -math.inf)):
        gradient = normal(shape)
        gradient.view(-1)[n // 2] = value
        yield f"one {name}", gradient
    yield "all NaN", torch.full(shape, math.nan)


def _at(shape: Sequence[int], position: int, value: float) -> Tensor:
    gradient = torch.zeros(shape)
    if gradient.numel():
        gradient.view(-1)[position] = value
    return gradient
