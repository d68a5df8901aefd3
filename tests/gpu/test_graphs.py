"""Encode and decode in a CUDA graph: a replay does what a call would, whatever has run in between."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from gpu.subject import BACKEND, KEY, needs_gpu, values

import compll
from compll.runtime.devices.cuda_batch import KEPT_BATCHES

pytestmark = needs_gpu

SHAPE = (300, 1000)
EXACT = ("topk", "adtopk", "onebit", "qsgd", "dgc", "terngrad")


@dataclass
class Captured:
    """A graph of encode and decode of `gradient`; `before` is the state before the first replay."""

    graph: torch.cuda.CUDAGraph
    gradient: torch.Tensor
    state: compll.State
    payload: torch.Tensor
    decoded: torch.Tensor

    def replay(self, gradient: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        self.gradient.copy_(gradient)
        self.graph.replay()
        return self.payload.clone(), self.decoded.clone()


def capture(compressor: compll.Compressor) -> Captured:
    """One call before the capture loads the kernels; the state is then set back."""
    gradient = torch.zeros(SHAPE, device="cuda")
    state = compressor.init_state(gradient, key=KEY)
    before = state.clone()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        compressor.decode(compressor.encode(gradient, state, key=KEY))
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        payload = compressor.encode(gradient, state, key=KEY)
        decoded = compressor.decode(payload)
    state.copy_from(before)
    return Captured(graph, gradient, state, payload.buffer, decoded)


def disturb(compressor: compll.Compressor) -> None:
    """Calls that push what is kept of batches out, and memory that is given back and filled anew."""
    for n in range(1000, 1000 + 2 * KEPT_BATCHES):
        compressor.decode(compressor.encode(values(n)))
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    rubbish = [torch.full((1 << 20,), 0xA5, dtype=torch.uint8, device="cuda") for _ in range(64)]
    del rubbish


@pytest.mark.parametrize("name", EXACT)
def test_replays(name: str) -> None:
    compressor = compll.load(name, backend=BACKEND)
    captured = capture(compressor)
    state = compressor.init_state(captured.gradient, key=KEY)
    for step in range(6):
        if step % 2:
            disturb(compressor)
        gradient = values(SHAPE, step)
        payload = compressor.encode(gradient, state, key=KEY)
        decoded = compressor.decode(payload)
        found = captured.replay(gradient)
        assert torch.equal(found[0], payload.buffer), step
        assert torch.equal(found[1], decoded), step


def test_products_replay() -> None:
    compressor = compll.load("powersgd", backend=BACKEND)
    captured = capture(compressor)
    state = compressor.init_state(captured.gradient, key=KEY)
    for step in range(3):
        gradient = values(SHAPE, step)
        decoded = compressor.decode(compressor.encode(gradient, state, key=KEY))
        torch.testing.assert_close(captured.replay(gradient)[1], decoded, rtol=1e-3, atol=1e-3)


def test_two_graphs_of_one_program() -> None:
    """Each has tables and scratch of its own."""
    compressor = compll.load("topk", backend=BACKEND)
    first, second = capture(compressor), capture(compressor)
    for step in range(4):
        gradient = values(SHAPE, step)
        a, b = first.replay(gradient), second.replay(gradient)
        assert torch.equal(a[0], b[0]) and torch.equal(a[1], b[1])


def test_under_a_compiler() -> None:
    """torch.compile takes encode and decode as operators."""
    compressor = compll.load("topk", backend=BACKEND)
    grad = values(SHAPE)

    @torch.compile(fullgraph=True)
    def there_and_back(g: torch.Tensor) -> torch.Tensor:
        return compressor.decode(compressor.encode(g * 2.0, key=KEY)) + 1.0

    expected = compressor.decode(compressor.encode(grad * 2.0, key=KEY)) + 1.0
    assert torch.equal(there_and_back(grad), expected)
