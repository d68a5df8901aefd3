"""The compressors written in plain torch do the work of the programs that they are timed beside."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import compll
from benchmarks.baselines import plain
from benchmarks.baselines.registry import REGISTRY
from benchmarks.formulas.base import with_feedback
from compll.runtime.load import built_in_names

#: Of a size at which thresholds that are parameters select a few percent.
DEVIATION = 0.002
STEPS = 3


def gradients(shape: tuple[int, ...]) -> list[Tensor]:
    generator = torch.Generator().manual_seed(3)
    return [DEVIATION * torch.randn(shape, generator=generator) for _ in range(STEPS)]


def test_every_baseline_is_of_a_shipped_program() -> None:
    assert REGISTRY.keys() <= set(built_in_names())
    assert plain("nobody", {}) is None


@pytest.mark.parametrize("name", REGISTRY)
def test_baseline_loses_as_much_as_the_program(name: str) -> None:
    """What is lost of the summed gradients after some steps with the same feedback is equal up to draws."""
    compressor = compll.load(name, backend="reference")
    baseline = plain(name, compressor.params)
    assert baseline is not None
    grads = gradients((120, 200))
    state = compressor.init_state(grads[0])
    memory = {name: tensor.clone() for name, tensor in state.states.items()}
    torch.manual_seed(0)
    ours, theirs = torch.zeros_like(grads[0]), torch.zeros_like(grads[0])
    for step, grad in enumerate(grads):
        ours += compressor.decode(compressor.encode(grad, state, compll.Key(step=step)))
        draws = baseline.draw(grad, step)
        if compressor.feedback:
            theirs += with_feedback(baseline.formula, grad, memory, draws)[1]
        else:
            theirs += baseline.formula.decompress(baseline.formula.compress(grad, memory, draws), grad.shape, draws)
    total = torch.stack(grads).sum(0)
    assert float((theirs - total).norm()) == pytest.approx(float((ours - total).norm()), rel=0.03)


@pytest.mark.parametrize("name", REGISTRY)
def test_step_updates_memory(name: str) -> None:
    compressor = compll.load(name, backend="reference")
    baseline = plain(name, compressor.params)
    assert baseline is not None
    (grad, *_) = gradients((40, 50))
    memory = {name: tensor.clone() for name, tensor in compressor.init_state(grad).states.items()}
    baseline.step(grad, memory, 0, feedback=True)
    assert memory["residual"].shape == grad.shape
