"""Means of payloads: on every backend the bits of decoding one after the other and dividing once, in f32."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from differential.gradients import bits, gradient

import compll
from compll.runtime.devices import cpu

ALGORITHMS = sorted(path.stem for path in Path(__file__).parents[2].glob("algorithms/*.cll"))
#: Without a payload there is nothing to merge.
PROGRAMS = [name for name in ALGORITHMS if name != "powersgd"]
#: For each gradient its shape, how many ranks there are, and which of them have a payload.
Layout = list[tuple[tuple[int, ...], int, tuple[int, ...]]]
ROWS: Layout = [
    ((4097,), 1, (0,)), ((65, 63), 2, (0, 1)), ((5,), 3, (0, 1, 2)), ((17, 300), 3, (0, 2)), ((0, 3), 2, (0, 1)),
    ((8, 8), 3, (1,)), ((3, 5), 2, ()), ((16, 16), 4, (0, 1, 2, 3)), ((1,), 2, (1,)), ((70,), 1, (0,)),
]  # fmt: skip
MATRICES = [row for row in ROWS if len(row[0]) == 2]
MORE = {
    # one walk with draws of its own, and a name that sums in registers had, too
    "dithered": """compressor dithered {
        payload { scale: f32; code: u2[n]; }
        encode(g: f32[n]) { return { scale: mean(map(abs, g)), code: u2(map(abs, g)) }; }
        decode(p) -> f32[n] {
            let total = map(|q, u| (f32(q) + u) * p.scale, p.code, random.uniform(n, shared = true));
            return total;
        }
    }""",
    # on a GPU, by the platform's library; inner sums of one term are exact
    "products": """compressor products {
        payload { a: f32[rows, 1]; b: f32[1, cols]; }
        encode(g: f32[rows, cols]) {
            return { a: matmul(g, fill(cols, 1, value = 1.0)), b: matmul(fill(1, rows, value = 1.0), g) };
        }
        decode(p) -> f32[rows, cols] { return matmul(p.a, p.b); }
    }""",
}
#: 0, -0, the smallest and largest subnormals, 1, 3, -3, the largest, inf, NaN.
SPECIAL = np.array(
    [0, 1 << 31, 1, 0x80000001, 5, 0x007FFFFF, 0x807FFFFF, 0x00800001, 0x3F800000, 0x40400000, 0xC0400000, 0x7F7FFFFF,
     0xFF7FFFFF, 0x7F800000, 0xFF800000, 0x7FC00000], np.uint32
)  # fmt: skip

pytestmark = pytest.mark.skipif(cpu.available() is not None, reason="needs a C++ compiler")


@cache
def load(name: str, backend: str) -> compll.Compressor:
    return compll.load(name, backend=backend)


def special(shape: tuple[int, ...], seed: int) -> torch.Tensor:
    """An f32 tensor of SPECIAL."""
    return torch.from_numpy(np.random.default_rng(seed).choice(SPECIAL, shape).view(np.float32))


def payload(compressor: compll.Compressor, shape: tuple[int, ...], rank: int, *, strange: bool) -> compll.Payload:
    """What a rank sends; strange: of huge and subnormal elements, and half of its f32 words are of SPECIAL."""
    seed = 10 * len(shape) + rank
    grad = gradient(shape, "extreme" if strange else "normal", seed)
    sent = compressor.encode(grad, key=compll.Key(seed=1, gradient=len(shape), rank=rank))
    for section in compressor.sections(shape) if strange else ():
        if section.dtype == torch.float32:
            words = sent.buffer[section.offset : section.offset + section.nbytes].view(torch.float32)
            chosen = torch.from_numpy(np.random.default_rng(seed).random(words.numel()) < 0.5)
            words.copy_(torch.where(chosen, special((words.numel(),), seed), words))
    return sent


def rows_of(reference: compll.Compressor, layout: Layout, *, strange: bool) -> list[list[compll.Payload | None]]:
    return [
        [payload(reference, shape, rank, strange=strange) if rank in present else None for rank in range(count)]
        for shape, count, present in layout
    ]


def by_hand(
    reference: compll.Compressor, row: list[compll.Payload | None], start: torch.Tensor, *, add: bool
) -> torch.Tensor:
    """One after the other by the interpreter, the quotient by NumPy."""
    out = start.clone() if add else torch.zeros_like(start)
    for turn, sent in enumerate(p for p in row if p is not None):
        reference.decode(sent, out=out, add=add or turn > 0)
    return torch.from_numpy(out.numpy() / np.float32(len(row)))


def compare(name: str, backend: str, layout: Layout, *, threads: int = 1, strange: bool = True) -> None:
    """Of usual payloads and, if wanted, of strange ones."""
    reference = load(name, "reference")
    for kind in (False, True) if strange else (False,):
        rows = rows_of(reference, layout, strange=kind)
        for add in (False, True):
            starts = [special(shape, seed) for seed, (shape, _, _) in enumerate(layout)]
            outs = [start.clone() for start in starts]
            load(name, backend).decode_batch(rows, outs, add=add, threads=threads)
            for row, start, out in zip(rows, starts, outs, strict=True):
                assert torch.equal(bits(by_hand(reference, row, start, add=add)), bits(out)), (out.shape, len(row), add)


@pytest.mark.parametrize("backend", ["reference", "cpu", "emulator"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_shipped_programs(name: str, backend: str) -> None:
    compare(name, backend, ROWS)


@pytest.mark.parametrize("backend", ["cpu", "emulator"])
@pytest.mark.parametrize("name", MORE)
def test_what_the_shipped_programs_do_not_do(name: str, backend: str, tmp_path: Path) -> None:
    path = tmp_path / f"{name}.cll"
    path.write_text(MORE[name])
    compare(str(path), backend, MATRICES, strange=name != "products")


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", PROGRAMS)
def test_sums_that_threads_share(name: str, threads: int) -> None:
    """Long enough for two threads and for rows side by side."""
    layout: Layout = [((70_001,), 3, (0, 1, 2)), ((300, 300), 2, (0, 1)), ((33, 65), 3, (1, 2))]
    compare(name, "cpu", layout, threads=threads)


@pytest.mark.parametrize("order", ["1", "2"])
@pytest.mark.parametrize("name", ["onebit", "topk", "threelc"])
def test_any_order_of_threads_on_a_gpu(name: str, order: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EMULATOR_ORDER", order)
    compare(name, "emulator", ROWS)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("backend", ["cpu", "emulator"])
@pytest.mark.parametrize("name", ["topk", "qsgd"])
def test_narrow_means_are_rounded_once(name: str, backend: str, dtype: torch.dtype) -> None:
    reference = load(name, "reference")
    rows = rows_of(reference, ROWS, strange=False)
    for add in (False, True):
        outs = [torch.full(shape, 0.3, dtype=dtype) for shape, _, _ in ROWS]
        expected = [by_hand(reference, row, out.float(), add=add).to(dtype) for row, out in zip(rows, outs)]
        load(name, backend).decode_batch(rows, outs, add=add)
        assert all(torch.equal(a, b) for a, b in zip(expected, outs, strict=True))
