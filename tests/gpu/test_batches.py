"""One call for many gradients: the bytes of as many calls, at the cost of one."""

from __future__ import annotations

import pytest
import torch
from gpu.subject import BACKEND, DEVICE, EMULATED, EXACT, KEY, needs_backend, values

import compll
from compll.cli.benchmark.workload import read_model

pytestmark = needs_backend

SHAPES = [(1,), (64, 3, 3), (7, 1000), (4097,)] if EMULATED else [s for s in read_model("resnet50") if len(s) > 1][:40]


@pytest.mark.parametrize("name", EXACT)
def test_a_model_at_once(name: str) -> None:
    compressor = compll.load(name, backend=BACKEND)
    grads = [values(shape, seed) for seed, shape in enumerate(SHAPES)]
    apart = [compressor.encode(grad, key=KEY) for grad in grads]
    states = [compressor.init_state(grad, key=KEY) for grad in grads]
    together = compressor.encode_batch(grads, states, [KEY] * len(grads))
    for one, other in zip(apart, together, strict=True):
        assert torch.equal(one.buffer, other.buffer)
    outs = [torch.empty_like(grad) for grad in grads]
    compressor.decode_batch([[payload, None, payload] for payload in together], outs)
    for out, payload in zip(outs, apart, strict=True):
        twice = compressor.decode(payload, out=compressor.decode(payload), add=True)
        assert torch.equal(out.cpu(), twice.cpu() / 3)  # on a GPU torch's own division multiplies by a reciprocal


def test_a_tensor_of_another_place() -> None:
    other = "meta" if EMULATED else "cpu"
    compressor = compll.load("topk", backend=BACKEND)
    if other == "cpu":
        with pytest.raises(compll.CompllError, match="backend='cuda' needs CUDA tensors, .* are on `cpu`"):
            compressor.encode(torch.zeros(10))
    payload = compressor.encode(values(10))
    with pytest.raises(compll.CompllError, match="needs to be on"):
        compressor.payload(torch.zeros(payload.nbytes, dtype=torch.uint8, device=other), like=values(10))


@pytest.mark.skipif(EMULATED or torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_the_second_gpu() -> None:
    """Kernels run where the tensors are, whatever GPU is current."""
    compressor = compll.load("topk", backend=BACKEND)
    grad = values(100_000)
    expected = compressor.encode(grad, key=KEY)
    found = compressor.encode(grad.to("cuda:1"), key=KEY)
    assert found.buffer.device == torch.device("cuda:1")
    assert torch.equal(found.buffer.to(DEVICE), expected.buffer)
