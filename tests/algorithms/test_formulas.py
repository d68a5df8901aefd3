"""Shipped programs against formulas written by hand from the papers (`benchmarks/formulas`), step after step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import philox_words as words
import pytest
import torch
from torch import Tensor

import compll
from benchmarks.formulas.adtopk import AllDimensionTopK
from benchmarks.formulas.base import Draws, Formula, Memory, with_feedback
from benchmarks.formulas.dgc import DeepGradientCompression
from benchmarks.formulas.linear import Linear
from benchmarks.formulas.onebit import OneBit
from benchmarks.formulas.randomk import RandomK
from benchmarks.formulas.signs import Signs
from benchmarks.formulas.tbq import ThresholdBinary
from benchmarks.formulas.terngrad import TernGrad
from benchmarks.formulas.topk import TopK
from compll.runtime.devices import available_devices

BACKENDS = [name for name in available_devices() if name != "cuda"]
SHAPES = [(1,), (17,), (1025,), (33, 65), (64, 5, 3, 3), (70, 150)]
STEPS = 4


def no_draws(key: compll.Key, n: int) -> Draws:
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """`tolerance` is relative to the largest decoded element: 0 where the formula has no sum in it."""

    program: str
    formula: Formula
    params: dict[str, object]
    feedback: bool
    draws: Callable[[compll.Key, int], Draws] = no_draws
    tolerance: float = 0.0

    def __str__(self) -> str:
        return " ".join([self.program, *(f"{k}={v}" for k, v in self.params.items())])


def dgc_draws(formula: DeepGradientCompression) -> Callable[[compll.Key, int], Draws]:
    def draws(key: compll.Key, n: int) -> Draws:
        return {"sample": words.sample(key, n, formula.sample_size(n)), "step": torch.tensor(key.step)}

    return draws


def randomk_draws(formula: RandomK) -> Callable[[compll.Key, int], Draws]:
    return lambda key, n: {"index": words.choose(key, n, formula.count(n))}


def uniform_draws(key: compll.Key, n: int) -> Draws:
    return {"uniform": words.uniform(key, n)}


DGC, DGC_DENSE = DeepGradientCompression(), DeepGradientCompression(ratio=0.2, sample_ratio=0.5, momentum=0.5)
RANDOMK, RANDOMK_PLAIN = RandomK(ratio=0.1), RandomK(scale=False)

CASES = [
    Case(program="topk", formula=TopK(), params={}, feedback=True),
    Case(program="topk", formula=TopK(ratio=0.3), params={"ratio": 0.3}, feedback=True),
    Case(program="adtopk", formula=AllDimensionTopK(), params={}, feedback=True),
    Case(program="adtopk", formula=AllDimensionTopK(ratio=0.1), params={"ratio": 0.1}, feedback=True),
    Case(program="dgc", formula=DGC, params={}, feedback=False, draws=dgc_draws(DGC)),
    Case(
        program="dgc", formula=DGC_DENSE, params={"ratio": 0.2, "sample_ratio": 0.5, "momentum": 0.5}, feedback=False,
        draws=dgc_draws(DGC_DENSE),
    ),
    Case(program="randomk", formula=RANDOMK, params={"ratio": 0.1}, feedback=False, draws=randomk_draws(RANDOMK)),
    Case(
        program="randomk", formula=RANDOMK_PLAIN, params={"scale": False}, feedback=True,
        draws=randomk_draws(RANDOMK_PLAIN),
    ),
    Case(program="onebit", formula=OneBit(), params={}, feedback=True, tolerance=1e-5),
    Case(
        program="terngrad", formula=TernGrad(clip=float("inf")), params={"clip": float("inf")}, feedback=False,
        draws=uniform_draws,
    ),
    Case(program="terngrad", formula=TernGrad(), params={}, feedback=False, draws=uniform_draws, tolerance=1e-6),
    Case(program="efsignsgd", formula=Signs(), params={}, feedback=True, tolerance=1e-5),
    Case(program="linear", formula=Linear(), params={}, feedback=True),
    Case(program="linear", formula=Linear(bits=7), params={"bits": 7}, feedback=True),
    Case(program="tbq", formula=ThresholdBinary(threshold=0.5), params={"threshold": 0.5}, feedback=True),
]  # fmt: skip


def gradients(shape: tuple[int, ...]) -> list[Tensor]:
    generator = torch.Generator().manual_seed(len(shape))
    return [torch.randn(shape, generator=generator) * torch.randn(shape, generator=generator) for _ in range(STEPS)]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_program_equals_formula(case: Case, shape: tuple[int, ...], backend: str) -> None:
    compressor = compll.load(case.program, backend=backend, **case.params)
    state = compressor.init_state(torch.zeros(shape))
    memory: Memory = {}
    for step, gradient in enumerate(gradients(shape)):
        key = compll.Key(seed=5, step=step, gradient=2, rank=3)
        draws = case.draws(key, gradient.numel())
        if case.feedback:
            _, expected = with_feedback(case.formula, gradient, memory, draws)
        else:
            expected = case.formula.decompress(case.formula.compress(gradient, memory, draws), gradient.shape, draws)
        decoded = compressor.decode(compressor.encode(gradient, state, key=key), like=gradient)
        assert_equal(decoded, expected, case.tolerance)
        if state.residual is not None:
            assert_equal(state.residual, memory["residual"], case.tolerance)
        for name, tensor in state.states.items():
            assert_equal(tensor, memory[name].reshape(tensor.shape), case.tolerance)


def assert_equal(found: Tensor, expected: Tensor, tolerance: float) -> None:
    """Bit for bit without a tolerance; -0 and 0 are equal."""
    if tolerance == 0:
        assert torch.equal(found, expected)
        return
    assert float((found - expected).abs().max()) <= tolerance * float(expected.abs().max()) + 1e-12
