"""Kernels run on torch's current stream, and calls on several streams and threads do not disturb each other."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Thread

import pytest
import torch
from gpu.subject import BACKEND, DEVICE, KEY, needs_gpu, values

import compll

pytestmark = needs_gpu

NAMES = ("topk", "onebit", "dgc", "adtopk")
CYCLES = 200_000_000  # about a tenth of a second
STEPS = 12


def payloads(compressor: compll.Compressor, grads: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Of all steps, copied on the stream that made them."""
    state = compressor.init_state(grads[0], key=KEY)
    return [compressor.encode(g, state, key=compll.Key(step=i)).buffer.clone() for i, g in enumerate(grads)]


def same(left: Sequence[torch.Tensor], right: Sequence[torch.Tensor]) -> bool:
    torch.cuda.synchronize()
    return all(torch.equal(a, b) for a, b in zip(left, right, strict=True))


@pytest.mark.parametrize("name", NAMES)
def test_what_a_side_stream_made(name: str) -> None:
    """The gradient is ready late, on a side stream: an encoder on any other stream would see it too early."""
    compressor = compll.load(name, backend=BACKEND)
    final = values(300_000)
    expected = compressor.encode(final, key=KEY).buffer
    late = torch.zeros_like(final)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        torch.cuda._sleep(CYCLES)
        late.copy_(final)
        found = compressor.encode(late, key=KEY).buffer
    assert same([found], [expected])


@pytest.mark.parametrize("name", NAMES)
def test_streams_in_turns(name: str) -> None:
    compressor = compll.load(name, backend=BACKEND)
    grads = [[values((100_000 + 999 * lane,), STEPS * lane + i) for i in range(STEPS)] for lane in range(3)]
    expected = [payloads(compressor, mine) for mine in grads]
    states = [compressor.init_state(mine[0], key=KEY) for mine in grads]
    streams = [torch.cuda.Stream() for _ in grads]
    torch.cuda.synchronize()
    found: list[list[torch.Tensor]] = [[] for _ in grads]
    for i in range(STEPS):
        for lane, stream in enumerate(streams):
            with torch.cuda.stream(stream):
                payload = compressor.encode(grads[lane][i], states[lane], key=compll.Key(step=i))
                found[lane].append(payload.buffer.clone())
    for mine, theirs in zip(found, expected, strict=True):
        assert same(mine, theirs)


@pytest.mark.parametrize("own_streams", [True, False], ids=["own streams", "one stream"])
def test_threads(own_streams: bool) -> None:
    compressor = compll.load("topk", backend=BACKEND)
    grads = [[values((50_000 + 7 * lane,), STEPS * lane + i) for i in range(STEPS)] for lane in range(4)]
    expected = [payloads(compressor, mine) for mine in grads]
    torch.cuda.synchronize()
    found: dict[int, list[torch.Tensor]] = {}

    def work(lane: int) -> None:
        stream = torch.cuda.Stream() if own_streams else torch.cuda.default_stream()
        with torch.cuda.stream(stream):
            found[lane] = payloads(compressor, grads[lane])

    threads = [Thread(target=work, args=(lane,)) for lane in range(len(grads))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for lane, theirs in enumerate(expected):
        assert same(found[lane], theirs)


def test_in_a_backward_of_a_side_stream() -> None:
    """A gradient hook runs on the stream of its forward."""
    compressor = compll.load("topk", backend=BACKEND)
    x = values(200_000)
    expected = compressor.encode(x, key=KEY).buffer
    weight = torch.zeros_like(x).requires_grad_()
    found: list[torch.Tensor] = []
    weight.register_post_accumulate_grad_hook(lambda w: found.append(compressor.encode(w.grad, key=KEY).buffer))
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        torch.cuda._sleep(CYCLES)
        (weight * x).sum().backward()
    assert same(found, [expected])
    assert weight.device.type == DEVICE.type
