"""Which baseline belongs to which shipped program."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from benchmarks.baselines import quantized, selections, thresholds
from benchmarks.baselines.lowrank import PowerSGD
from benchmarks.formulas.base import Draws, Formula
from benchmarks.formulas.dgc import DeepGradientCompression
from benchmarks.formulas.randomk import RandomK

Draw = Callable[[Tensor, int], Draws]
Entry = Callable[[Mapping[str, Any]], tuple[Formula, Draw]]


def nothing(gradient: Tensor, step: int) -> Draws:
    return {}


def uniform(gradient: Tensor, step: int) -> Draws:
    """One number in [0, 1) for every element."""
    return {"uniform": torch.rand(gradient.numel(), device=gradient.device)}


def _dgc(params: Mapping[str, Any]) -> tuple[Formula, Draw]:
    formula = DeepGradientCompression(**params)

    def draw(gradient: Tensor, step: int) -> Draws:
        n = gradient.numel()
        sample = torch.randint(n, (formula.sample_size(n),), device=gradient.device)
        return {"sample": sample, "step": torch.tensor(step)}

    return formula, draw


def _randomk(params: Mapping[str, Any]) -> tuple[Formula, Draw]:
    formula = RandomK(**params)

    def draw(gradient: Tensor, step: int) -> Draws:
        n = gradient.numel()
        return {"index": torch.randperm(n, device=gradient.device)[: formula.count(n)]}

    return formula, draw


def _above(rule: Callable[[Tensor, Mapping[str, Any]], Tensor | float]) -> Entry:
    return lambda params: (thresholds.Above(lambda x: rule(x, params)), nothing)


REGISTRY: dict[str, Entry] = {
    "adtopk": lambda p: (selections.FastAllDimensionTopK(**p), nothing),
    "dgc": _dgc,
    "efsignsgd": lambda p: (quantized.Sign(), nothing),
    "gaussiank": _above(lambda x, p: thresholds.gaussian(x, p["ratio"])),
    "graddrop": _above(lambda x, p: thresholds.sampled(x, 1 - p["drop"], p["sample_ratio"])),
    "linear": lambda p: (quantized.Linear(**p), nothing),
    "natural": lambda p: (quantized.Natural(), uniform),
    "onebit": lambda p: (quantized.PlainOneBit(), nothing),
    "powersgd": lambda p: (PowerSGD(), nothing),
    "qsgd": lambda p: (quantized.QSGD(**p), uniform),
    "randomk": _randomk,
    "redsync": _above(lambda x, p: thresholds.bisected(x, max(1, math.floor(p["ratio"] * x.numel())))),
    "sidco": _above(lambda x, p: thresholds.staged(x, p["ratio"])),
    "tbq": lambda p: (quantized.Ternary(**p), nothing),
    "terngrad": lambda p: (quantized.FastTernGrad(**p), uniform),
    "threshold": _above(lambda x, p: p["threshold"]),
    "topk": lambda p: (selections.FastTopK(**p), nothing),
}
