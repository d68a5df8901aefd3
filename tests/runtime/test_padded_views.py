"""Views whose last block reaches beyond the gradient: steps that are no sweeps know nothing of its end."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import compll
from compll.runtime.devices import available_devices

BACKENDS = [name for name in ("reference", "cpu") if name in available_devices()]
NUMEL, GUARD, INSIDE = 11, 64, 7.0

#: What each of them would do wrong: write a result, or read one, as if there were memory for whole blocks.
PROGRAMS = {
    "turned": "encode(g: f32[blocks(8), 8]) { return transpose(orthonormalize(transpose(g + 1.0))); }",
    "decoded": "payload { p: f32[blocks(8), 8]; } encode(g: f32[blocks(8), 8]) { return { p: g }; }"
    " decode(p) -> f32[blocks(8), 8] { return matmul(p.p, matmul(transpose(p.p), p.p)); }",
    "reread": "state gram: f32[8, 8]; encode(g: f32[blocks(8), 8]) {"
    " let shifted = g + 1.0; gram = matmul(transpose(shifted), shifted); return shifted; }",
    "lazy": "feedback residual; payload { up: bool[blocks(8), 8]; gram: f32[8, 8]; }"
    " encode(g: f32[blocks(8), 8]) { return { up: g > 0.5, gram: matmul(transpose(g), g) }; }"
    " decode(p) -> f32[blocks(8), 8] { return p.up ? 1.0 : 0.0; }",
}


def guarded(numel: int, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Memory full of one value, and its beginning."""
    memory = torch.full((numel + GUARD,), INSIDE, dtype=dtype)
    return memory, memory[:numel]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_nothing_lies_beyond_the_gradient(name: str, backend: str, tmp_path: Path) -> None:
    path = tmp_path / f"{name}.cll"
    path.write_text(f"compressor {name} {{ {PROGRAMS[name]} }}")
    c, oracle = compll.load(path, backend=backend), compll.load(path, backend="reference")
    state, expected_state = c.init_state(torch.zeros(NUMEL)), oracle.init_state(torch.zeros(NUMEL))
    memory, out = guarded(NUMEL, torch.float32)
    buffers, buffer = guarded(c.payload_bytes((NUMEL,)), torch.uint8)
    if state.held is not None:
        beyond, state.held = guarded(NUMEL, torch.float32)
        state.held.zero_()
    for step in range(2):
        grad = torch.randn(NUMEL, generator=torch.Generator().manual_seed(step))
        found, expected = c.encode(grad, state, out=buffer), oracle.encode(grad, expected_state)
        torch.testing.assert_close(c.decode(found, out=out), oracle.decode(expected))
        for section in c.sections((NUMEL,)):
            if section.dtype is not None:
                place = slice(section.offset, section.offset + section.nbytes)
                a, b = (payload.buffer[place].view(section.dtype) for payload in (found, expected))
                torch.testing.assert_close(a, b)
        for (_, a), (_, b) in zip(state.tensors(), expected_state.tensors(), strict=True):
            torch.testing.assert_close(a, b)
    assert bool((memory[NUMEL:] == INSIDE).all()) and bool((buffers[len(buffer) :] == INSIDE).all())
    assert state.held is None or bool((beyond[NUMEL:] == INSIDE).all())
