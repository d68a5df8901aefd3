"""Encode and decode never wait for the GPU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter

import pytest
import torch
from gpu.subject import ALGORITHMS, BACKEND, KEY, needs_gpu, values

import compll

pytestmark = needs_gpu

CYCLES = 2_000_000_000  # about one second
PROMPT = 0.5  # seconds


@contextmanager
def waiting_is_an_error() -> Iterator[None]:
    before = torch.cuda.get_sync_debug_mode()
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode(before)


def test_the_mode_works() -> None:
    one = torch.ones(1, device="cuda")
    with waiting_is_an_error(), pytest.raises(RuntimeError, match="synchronizing"):
        one.item()


@pytest.mark.parametrize("name", ALGORITHMS)
def test_torch_sees_no_wait(name: str) -> None:
    """Also at shapes that were not there before: the tables of a new batch are sent without waiting."""
    compressor = compll.load(name, backend=BACKEND)
    first = [values(shape) for shape in ((64, 100), (2000,))]
    compressor.compile(first[0])
    compressor.compile(first[1])
    grads = [values(shape) for shape in ((64, 100), (300, 31), (70_001,))]
    torch.cuda.synchronize()
    with waiting_is_an_error():
        states = [compressor.init_state(grad, key=KEY) for grad in grads]
        for _ in range(3):
            sent = compressor.encode_batch(grads, states, [KEY] * len(grads))
            outs = [torch.empty_like(grad) for grad in grads]
            compressor.decode_batch([[payload, payload] for payload in sent], outs)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_busy_gpu_holds_nobody_up(name: str) -> None:
    """What torch does not see, CuPy's calls among it, would show here: the stream is busy while we enqueue."""
    compressor = compll.load(name, backend=BACKEND)
    grad = values((300, 1000))
    state = compressor.init_state(grad, key=KEY)
    for _ in range(2):
        compressor.decode(compressor.encode(grad, state, key=KEY))
    torch.cuda.synchronize()
    torch.cuda._sleep(CYCLES)
    start = perf_counter()
    compressor.decode(compressor.encode(grad, state, key=KEY))
    took = perf_counter() - start
    busy = not torch.cuda.current_stream().query()
    torch.cuda.synchronize()
    assert busy, "the GPU was not kept busy long enough to tell"
    assert took < PROMPT
