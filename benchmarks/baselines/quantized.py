"""Quantisers in torch, a code in a byte (or what torch makes of it); sums in f32.

One bit: Seide et al. 2014. Sign: Karimireddy et al. 2019. Ternary: Strom 2015. TernGrad: Wen et al. 2017. QSGD:
Alistarh et al. 2017, section 3.1 with buckets. Natural: Horvath et al. 2022.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

from benchmarks.formulas.base import Draws, Memory, Payload
from benchmarks.formulas.onebit import OneBit
from benchmarks.formulas.terngrad import TernGrad


class PlainOneBit(OneBit):
    def compress(self, gradient: Tensor, memory: Memory, draws: Draws) -> Payload:
        flat = gradient.reshape(-1)
        upper = flat >= 0
        return {"high": flat[upper].mean().nan_to_num(), "low": flat[~upper].mean().nan_to_num(), "sign": upper}


class FastTernGrad(TernGrad):
    def compress(self, gradient: Tensor, memory: Memory, draws: Draws) -> Payload:
        flat = gradient.reshape(-1)
        magnitude = flat.abs()
        scale = magnitude.max()
        if math.isfinite(self.clip):
            scale = torch.minimum(scale, self.clip * flat.std(correction=0))
        return {"scale": scale, "code": ((draws["uniform"] < magnitude / scale) * flat.sign() + 1).to(torch.uint8)}


@dataclass(frozen=True, slots=True)
class Sign:
    def compress(self, gradient: Tensor, memory: Memory, draws: Draws) -> Payload:
        return {"scale": gradient.abs().mean(), "sign": gradient >= 0}

    def decompress(self, payload: Payload, shape: torch.Size, draws: Draws) -> Tensor:
        return torch.where(payload["sign"], payload["scale"], -payload["scale"]).reshape(shape)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ternary:
    threshold: float

    def compress(self, gradient: Tensor, memory: Memory, draws: Draws) -> Payload:
        return {"code": (gradient >= self.threshold).to(torch.int8) - (gradient <= -self.threshold).to(torch.int8)}

    def decompress(self, payload: Payload, shape: torch.Size, draws: Draws) -> Tensor:
        return (payload["code"] * self.threshold).reshape(shape)


@dataclass(frozen=True, slots=True, kw_only=True)
class Linear:
    """2^bits levels between minimum and maximum."""

    bits: int

    def compress(self, gradient: Tensor, memory: Memory, draws: Draws) -> Payload:
        low, high = gradient.aminmax()
        step = (high - low) / (2**self.bits - 1)
        return {"low": low, "step": step, "code": ((gradient - low) / step).round().to(torch.uint8)}

    def decompress(self, payload: Payload, shape: torch.Size, draws: Draws) -> Tensor:
        return (payload["code"] * payload["step"] + payload["low"]).reshape(shape)


@dataclass(frozen=True, slots=True, kw_only=True)
class QSGD:
    """Levels of the norm of every `bucket` elements."""

    bits: int
    bucket: int

    def compress(self, gradient: Tensor, memory: Memory, draws: Draws) -> Payload:
        levels = 2 ** (self.bits - 1) - 1
        flat, uniform = (pad(x.reshape(-1), (0, -x.numel() % self.bucket)) for x in (gradient, draws["uniform"]))
        rows = flat.view(-1, self.bucket)
        norm = rows.norm(dim=1, keepdim=True).clamp(min=1e-30)
        level = (rows.abs() / norm * levels + uniform.view_as(rows)).floor()
        return {"norm": norm, "code": (level * rows.sign()).to(torch.int8)}

    def decompress(self, payload: Payload, shape: torch.Size, draws: Draws) -> Tensor:
        rows = payload["code"] * (payload["norm"] / (2 ** (self.bits - 1) - 1))
        return rows.reshape(-1)[: shape.numel()].reshape(shape)


@dataclass(frozen=True, slots=True)
class Natural:
    """A power of two: the next lower or higher one, at random."""

    def compress(self, gradient: Tensor, memory: Memory, draws: Draws) -> Payload:
        fraction, exponent = torch.frexp(gradient.reshape(-1))  # fraction in [1/2, 1)
        up = draws["uniform"] < 2 * fraction.abs() - 1
        return {"exponent": (exponent - 1 + up).to(torch.int8), "sign": fraction.sign().to(torch.int8)}

    def decompress(self, payload: Payload, shape: torch.Size, draws: Draws) -> Tensor:
        return torch.ldexp(payload["sign"].float(), payload["exponent"]).reshape(shape)
