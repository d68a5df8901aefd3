"""Encoding in rounds on a GPU: collectives between launches, nothing copied to the host."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from gpu.subject import BACKEND, DEVICE, KEY, needs_backend, values

import compll

pytestmark = needs_backend

SHAPES = [(300, 200), (17,), (5, 4097)]

#: A number, a value for each row, and a field that holds a mean.
PROGRAM = """compressor scaled {
    feedback residual;
    payload { height: f32[rows]; positive: bool[rows, cols]; }
    encode(m: f32[rows, cols]) {
        let center = all_reduce_mean(mean(m));
        return { height: all_reduce_mean(max(abs(m - center), axis = 1)), positive: m >= center };
    }
    decode(p) -> f32[rows, cols] { return p.positive ? p.height : -p.height; }
}"""


@pytest.fixture(params=["scaled", "powersgd"])
def compressor(request: pytest.FixtureRequest, tmp_path: Path) -> compll.Compressor:
    path = tmp_path / "scaled.cll"
    path.write_text(PROGRAM)
    return compll.load(path if request.param == "scaled" else request.param, backend=BACKEND)


def test_left_alone_it_is_encode(compressor: compll.Compressor) -> None:
    grads = [values(shape, seed) for seed, shape in enumerate(SHAPES)]
    keys = [KEY] * len(grads)
    together, alone = ([compressor.init_state(g, KEY) for g in grads] for _ in range(2))
    for _ in range(2):
        expected = compressor.encode_batch(grads, together, keys)
        rounds = compressor.encode_rounds(grads, alone, keys)
        sizes = [tuple(map(len, tensors)) for tensors in rounds]
        assert sizes == list(zip(*(compressor.round_sizes(g) for g in grads), strict=True))
        assert all(torch.equal(a.buffer, b.buffer) for a, b in zip(expected, rounds.payloads, strict=True))


def test_two_ranks_on_one_device(compressor: compll.Compressor) -> None:
    """Both are under way at once; they agree on what is averaged, and keep what was not sent."""
    grads = [[values(shape, 10 * rank + seed) for seed, shape in enumerate(SHAPES)] for rank in range(2)]
    states = [[compressor.init_state(g, KEY) for g in mine] for mine in grads]
    running = [compressor.encode_rounds(g, s, [KEY] * len(g)) for g, s in zip(grads, states, strict=True)]
    for ours, theirs in zip(*running, strict=True):
        for a, b in zip(ours, theirs, strict=True):
            assert a.device.type == DEVICE.type
            mean = (a + b) / 2
            a.copy_(mean)
            b.copy_(mean)
    for i, like in enumerate(grads[0]):
        outs = [compressor.decode(rounds.payloads[i], like=like) for rounds in running]
        for out, mine, held in zip(outs, grads, states, strict=True):
            assert held[i].residual is not None and torch.equal(mine[i] - out, held[i].residual)
        assert torch.equal(outs[0].abs(), outs[1].abs())  # signs are the ranks' own
