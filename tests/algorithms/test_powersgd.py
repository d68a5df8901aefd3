"""PowerSGD on several simulated ranks, against the formula from the paper."""

from __future__ import annotations

import pytest
import torch

import compll
from benchmarks.formulas.base import Memory
from benchmarks.formulas.powersgd import low_rank_step
from compll.runtime.devices import available_devices

BACKENDS = [name for name in ("reference", "cpu") if name in available_devices()]
BACKENDS += ["emulator"] if "cpu" in BACKENDS else []
SHAPES = [(70, 33), (8, 3, 3, 3), (19,), (3, 200), (40, 2)]
WORLD = 2


def gradient(shape: tuple[int, ...], seed: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def average(rows: list[list[torch.Tensor]]) -> None:
    """What an all-reduce does."""
    for same in zip(*rows, strict=True):
        mean = torch.stack(same).mean(dim=0)
        for tensor in same:
            tensor.copy_(mean)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("rank", [1, 4])
def test_steps_of_two_workers(rank: int, backend: str) -> None:
    c = compll.load("powersgd", rank=rank, backend=backend)
    key = compll.Key(seed=1)
    states = [[c.init_state(torch.zeros(shape), key) for shape in SHAPES] for _ in range(WORLD)]
    memories: list[list[Memory]] = [[{"q": s.states["q"].clone()} for s in mine] for mine in states]
    for step in range(4):
        grads = [[gradient(shape, 100 * step + 10 * i + w) for i, shape in enumerate(SHAPES)] for w in range(WORLD)]
        running = [
            c.encode_rounds(mine, held, [compll.Key(seed=1, step=step, rank=w)] * len(SHAPES))
            for w, (mine, held) in enumerate(zip(grads, states, strict=True))
        ]
        for tensors in zip(*running, strict=True):
            average(list(tensors))
        for i, like in enumerate(grads[0]):
            expected = low_rank_step([mine[i] for mine in grads], [mine[i] for mine in memories])
            for w in range(WORLD):
                torch.testing.assert_close(c.decode(running[w].payloads[i], like=like), expected, rtol=1e-3, atol=1e-3)
                torch.testing.assert_close(states[w][i].residual, memories[w][i]["residual"], rtol=1e-3, atol=1e-3)
                torch.testing.assert_close(states[w][i].states["q"], memories[w][i]["q"], rtol=1e-3, atol=1e-3)


def test_a_gradient_of_low_rank_arrives_whole() -> None:
    """The formula says so, too: the column space is found in one step."""
    left, right = gradient((50, 3), 1), gradient((3, 40), 2)
    c = compll.load("powersgd", rank=4)
    out = c.decode(c.encode(left @ right))
    torch.testing.assert_close(out, left @ right, rtol=1e-3, atol=1e-3)
