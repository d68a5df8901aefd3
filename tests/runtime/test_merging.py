"""Merging payloads of several ranks, against sums made here."""

from pathlib import Path

import pytest
import torch

import compll
from compll import CompllError, Key
from compll.runtime.devices import available_devices

ALGORITHMS = sorted(path.stem for path in Path(__file__).parents[2].glob("algorithms/*.cll"))
SHAPES = [(70, 33), (5,), (300, 300), (0, 3), (8, 8)]


@pytest.mark.parametrize("backend", [name for name in ("reference", "cpu") if name in available_devices()])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_rows_with_gaps_are_summed_in_rank_order(backend: str, dtype: torch.dtype) -> None:
    c = compll.load("topk", ratio=0.5, backend=backend)
    generator = torch.Generator().manual_seed(0)
    present = [(0, 1, 2), (2,), (1, 2), (0, 2), ()]
    rows = []
    for shape, ranks in zip(SHAPES, present, strict=True):
        grads = [torch.randn(shape, generator=generator).to(dtype) for _ in range(3)]
        rows.append([c.encode(g, key=Key(rank=r)) if r in ranks else None for r, g in enumerate(grads)])
    for add in (False, True):
        outs = [torch.full(shape, 2.0, dtype=dtype) for shape in SHAPES]
        c.decode_batch(rows, outs, add=add, mean=False)
        for row, out in zip(rows, outs, strict=True):
            total = torch.full(out.shape, 2.0 if add else 0.0)
            for payload in row:
                if payload is not None:
                    total += c.decode(payload, out=torch.empty(out.shape))
            assert torch.equal(out, total.to(dtype))


@pytest.mark.skipif("cpu" not in available_devices(), reason="needs a C++ compiler")
@pytest.mark.parametrize("backend", ["cpu", "emulator"])
@pytest.mark.parametrize("name", ALGORITHMS)
def test_merging_has_the_bits_of_decoding_in_turns(backend: str, name: str) -> None:
    """Every program, rows of several lengths in one call."""
    c = compll.load(name, backend=backend)
    rows = []
    for i, shape in enumerate(SHAPES):
        generator = torch.Generator().manual_seed(i)
        grads = [torch.randn(shape, generator=generator) for _ in range(4)]
        keys = [Key(seed=1, gradient=i, rank=rank) for rank in range(4)]
        rows.append([c.encode(g, key=key) if (i + key.rank) % 4 else None for g, key in zip(grads, keys)])
    for add in (False, True):
        outs, expected = ([torch.full(shape, 2.0) for shape in SHAPES] for _ in range(2))
        c.decode_batch(rows, outs, add=add, mean=False)
        for row, out in zip(rows, expected, strict=True):
            for turn, payload in enumerate(p for p in row if p is not None):
                c.decode(payload, out=out, add=add or turn > 0)
        assert all(torch.equal(a, b) for a, b in zip(outs, expected, strict=True))


def test_a_wrong_payload_is_found_before_anything_is_written() -> None:
    c = compll.load("topk", ratio=0.5)
    grad = torch.ones(8, 8)
    right = c.encode(grad)
    short = compll.Payload(buffer=right.buffer[:-4].clone(), shape=grad.shape, dtype=grad.dtype, key=Key())
    outs = [torch.full((8, 8), 7.0), torch.full((8, 8), 7.0)]
    with pytest.raises(CompllError, match=f"needs {right.nbytes} bytes for this gradient, got {right.nbytes - 4}"):
        c.decode_batch([[right, right], [right, short]], outs)
    assert all(bool((out == 7.0).all()) for out in outs)
