"""Gradients of more than 2^31 elements, whose positions need 64 bits."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from gpu.subject import BACKEND, DEVICE, KEY, needs_gpu

import compll

ENOUGH = 40 * 10**9  # bytes
N = 2**31 + 12_345
POSITIONS = (0, 1, 4095, 2**30 + 7, 2**31 - 1, 2**31, 2**31 + 4096, N - 2, N - 1)


def memory() -> int:
    """Of the GPU, in bytes; 0 where there is none."""
    if DEVICE.type != "cuda" or not torch.cuda.is_available():
        return 0
    return int(torch.cuda.get_device_properties(0).total_memory)


pytestmark = [*needs_gpu, pytest.mark.skipif(memory() < ENOUGH, reason="needs a GPU of 40 GB")]


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    torch.cuda.empty_cache()
    yield
    torch.cuda.empty_cache()


@pytest.mark.parametrize("name, params", [("topk", {"ratio": len(POSITIONS) / N}), ("threshold", {"threshold": 1.0})])
def test_the_largest_are_found_where_they_are(name: str, params: dict[str, float]) -> None:
    compressor = compll.load(name, backend=BACKEND, **params).with_feedback(False)
    grad = torch.full((N,), 0.25, device=DEVICE)
    for rank, position in enumerate(POSITIONS):
        grad[position] = -2.0 - rank
    payload = compressor.encode(grad, key=KEY)
    del grad
    out = compressor.decode(payload)
    k = int(params["ratio"] * N) if "ratio" in params else len(POSITIONS)  # the quotient may be rounded down
    kept = list(enumerate(POSITIONS))[-k:]
    assert int(torch.count_nonzero(out)) == len(kept)
    for rank, position in kept:
        assert float(out[position]) == -2.0 - rank


def test_signs() -> None:
    compressor = compll.load("onebit", backend=BACKEND).with_feedback(False)
    grad = torch.full((N,), 1.0, dtype=torch.bfloat16, device=DEVICE)
    grad[::3] = -0.5
    out = compressor.decode(compressor.encode(grad, key=KEY))
    assert out.dtype == torch.bfloat16
    assert torch.equal(out > 0, grad > 0)
    torch.testing.assert_close(out[-4096:], grad[-4096:], rtol=1e-2, atol=0)
    torch.testing.assert_close(out[:4096], grad[:4096], rtol=1e-2, atol=0)


def test_residual() -> None:
    """g == decoded + residual, in pieces of at most 2^28 elements."""
    compressor = compll.load("topk", backend=BACKEND, ratio=1e-6)
    grad = torch.empty(N, device=DEVICE).normal_(generator=torch.Generator(DEVICE).manual_seed(1))
    state = compressor.init_state(grad, key=KEY)
    out = compressor.decode(compressor.encode(grad, state, key=KEY))
    residual = state.residual
    assert residual is not None
    for first in range(0, N, 1 << 28):
        piece = slice(first, min(N, first + (1 << 28)))
        assert torch.equal(out[piece] + residual[piece], grad[piece])
