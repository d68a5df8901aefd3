"""Memory: nothing grows from step to step, and running out of it does no harm."""

from __future__ import annotations

import pytest
import torch
from gpu.subject import BACKEND, KEY, needs_gpu, values

import compll

pytestmark = needs_gpu

NAMES = ("topk", "onebit", "qsgd", "adtopk", "dgc")
MEBI = 1 << 20


@pytest.mark.parametrize("name", NAMES)
def test_steps_need_no_more(name: str) -> None:
    compressor = compll.load(name, backend=BACKEND)
    grad = values((1000, 1000))
    state = compressor.init_state(grad, key=KEY)
    out = torch.empty_like(grad)

    def steps(count: int) -> tuple[int, int]:
        for _ in range(count):
            compressor.decode(compressor.encode(grad, state, key=KEY), out=out)
        torch.cuda.synchronize()
        return torch.cuda.memory_allocated(), torch.cuda.memory_reserved()

    before = steps(5)
    assert steps(100) == before


def test_many_shapes_need_little() -> None:
    """What is kept of a batch is bounded."""
    compressor = compll.load("topk", backend=BACKEND)
    for n in range(10_000, 10_200):
        compressor.encode(values(n))
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    for n in range(20_000, 20_500):
        compressor.encode(values(n))
    torch.cuda.synchronize()
    assert torch.cuda.memory_allocated() - before < 16 * MEBI


def fill_up(leave: int) -> list[torch.Tensor]:
    """Take all memory but `leave` bytes."""
    torch.cuda.empty_cache()
    taken: list[torch.Tensor] = []
    size = 1 << 36
    while size >= MEBI:
        if torch.cuda.mem_get_info()[0] - size < leave:
            size //= 2
            continue
        try:
            taken.append(torch.empty(size, dtype=torch.uint8, device="cuda"))
        except torch.OutOfMemoryError:
            size //= 2
    return taken


@pytest.mark.parametrize("leave", [0, 8, 48])
def test_out_of_memory(leave: int) -> None:
    """A call that fails says so and changes nothing; the next one, with memory, goes on from where it was."""
    compressor = compll.load("topk", backend=BACKEND)
    grads = [values((4_000_000,), seed) for seed in range(3)]
    expected_state = compressor.init_state(grads[0], key=KEY)
    expected = [compressor.encode(g, expected_state, key=KEY).buffer.clone() for g in grads]
    state = compressor.init_state(grads[0], key=KEY)
    first = compressor.encode(grads[0], state, key=KEY).buffer.clone()
    taken = fill_up(leave * MEBI)
    try:
        second = compressor.encode(grads[1], state, key=KEY).buffer
    except torch.OutOfMemoryError:
        taken.clear()
        second = compressor.encode(grads[1], state, key=KEY).buffer
    taken.clear()
    third = compressor.encode(grads[2], state, key=KEY).buffer
    for found, wanted in zip((first, second, third), expected, strict=True):
        assert torch.equal(found, wanted)
