"""A model whose gradients are given: its backward costs a copy of them, so that a step is mostly synchronisation.

Linear layers by their shapes, of which nothing is computed; weights are never read and take no memory.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

DEVIATION = 1e-3

#: By how many elements the gradients of one step lie further along the pool than those of the step before.
SHIFT = 16
MOST_STEPS = 1024

SIZE = "COMPLL_NETLAB_SIZE"


class Pool:
    """Normal gradients of any step, each a view: fresh ones in every step, without making any."""

    def __init__(self, numel: int, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        self._numbers = torch.empty(numel + SHIFT * MOST_STEPS).normal_(0.0, DEVIATION, generator=generator)
        self._offsets: dict[str, int] = {}
        self._end = 0
        self.step = 0

    def add(self, name: str, numel: int) -> None:
        self._offsets[name] = self._end
        self._end += numel

    def gradient(self, name: str, shape: torch.Size) -> Tensor:
        start = self._offsets[name] + SHIFT * (self.step % MOST_STEPS)
        return self._numbers[start : start + shape.numel()].view(shape)


class _Given(torch.autograd.Function):
    """The identity on what flows through the layers, with given gradients for the layer's parameters."""

    @staticmethod
    def forward(ctx: Any, flow: Tensor, weight: Tensor, bias: Tensor, layer: GivenLinear) -> Tensor:
        ctx.layer = layer
        return flow.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Tensor | None, ...]:
        layer: GivenLinear = ctx.layer
        given = (layer.gradient(f"{layer.name}.{part}") for part in ("weight", "bias"))
        return (gradients[0], *given, None)


class GivenLinear(nn.Module):
    def __init__(self, name: str, width: int, pool: Pool) -> None:
        super().__init__()
        self.name = name
        self.weight = nn.Parameter(torch.empty(width, width))
        self.bias = nn.Parameter(torch.empty(width))
        self._pool = pool

    def gradient(self, name: str) -> Tensor:
        return self._pool.gradient(name, self.get_parameter(name.rpartition(".")[2]).shape)

    def forward(self, flow: Tensor) -> Tensor:
        flow = _Given.apply(flow, self.weight, self.bias, self)
        return flow


def numel(layers: int, width: int) -> int:
    return layers * width * (width + 1)


def new_pool(layers: int, width: int, seed: int) -> Pool:
    """The gradients of all models of this size; those of another rank have another seed."""
    pool = Pool(numel(layers, width), seed)
    for layer in range(layers):
        pool.add(f"{layer}.weight", width * width)
        pool.add(f"{layer}.bias", width)
    return pool


def new_model(layers: int, width: int, pool: Pool) -> nn.Module:
    """Called with the tensor that `start` gives, it returns a tensor of one element to call `backward` on."""
    return nn.Sequential(*(GivenLinear(str(layer), width, pool) for layer in range(layers)))


def start() -> Tensor:
    return torch.zeros(1, requires_grad=True)


def profiled() -> tuple[nn.Module, None, Callable[[nn.Module, None], Tensor]]:
    """For `compll profile --model benchmarks.netlab.model:profiled`; SIZE in the environment is LAYERSxWIDTH."""
    layers, width = (int(text) for text in os.environ[SIZE].split("x"))
    pool = new_pool(layers, width, seed=0)

    def loss(model: nn.Module, batch: None) -> Tensor:
        pool.step += 1
        result: Tensor = model(start())
        return result

    return new_model(layers, width, pool), None, loss
