"""Encoding in rounds: one collective after another, alone and with simulated ranks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Thread

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import compll
from compll.runtime.devices import available_devices
from compll.runtime.rounds import Rounds

BACKENDS = [name for name in ("reference", "cpu") if name in available_devices()]
BACKENDS += ["emulator"] if "cpu" in BACKENDS else []

PROGRAMS = {
    "none": "payload { s: bool[n]; } encode(g: f32[n]) { return { s: g > 0.0 }; }"
    " decode(p) -> f32[n] { return p.s ? 1.0 : -1.0; }",
    "halves": "feedback residual; encode(g: f32[n]) { return all_reduce_mean(0.5 * g); }",
    "padded": "feedback residual; encode(g: f32[blocks(8), 8]) { return all_reduce_mean(g); }",
    # the scale is a field, and a residual that is formed as it is read
    "scaled": "feedback residual; payload { scale: f32; positive: bool[n]; }"
    " encode(g: f32[n]) { let s = all_reduce_mean(max(abs(g))); return { scale: s, positive: g >= 0.0 }; }"
    " decode(p) -> f32[n] { return p.positive ? p.scale : -p.scale; }",
    # a scalar, a value for each row, a state: what is averaged last depends on the state before and on both means
    "three": "state last: f32[cols]; encode(m: f32[rows, cols]) {"
    " let center = all_reduce_mean(mean(m));"
    " let height = all_reduce_mean(max(abs(m - center), axis = 1));"
    " let column = sum(transpose((m - center) / (1.0 + height)), axis = 1);"
    " last = all_reduce_mean(0.5 * last + column);"
    " return transpose(transpose(fill(rows, cols, value = 0.0) + height) + last) + center; }",
}
ROUNDS = {"none": 0, "halves": 1, "padded": 1, "scaled": 1, "three": 3}
SHAPES = [(3, 5), (1,), (0, 4), (70, 90), (4097,)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("rounds")
    for name, body in PROGRAMS.items():
        (path / f"{name}.cll").write_text(f"compressor {name} {{ {body} }}")
    return path


class Ranks:
    """One program on several simulated ranks, whose rounds are averaged here."""

    def __init__(self, compressor: compll.Compressor, shapes: Sequence[tuple[int, ...]], world: int) -> None:
        self.compressor = compressor
        self.states = [[compressor.init_state(torch.zeros(shape)) for shape in shapes] for _ in range(world)]

    def start(self, grads: Sequence[Sequence[torch.Tensor]], step: int = 0) -> list[Rounds]:
        return [
            self.compressor.encode_rounds(mine, states, keys_of(mine, rank, step))
            for rank, (mine, states) in enumerate(zip(grads, self.states, strict=True))
        ]

    def step(self, grads: Sequence[Sequence[torch.Tensor]], step: int = 0) -> list[list[torch.Tensor]]:
        """What every rank's own payloads decode to."""
        running = self.start(grads, step)
        for tensors in zip(*running, strict=True):
            for same in zip(*tensors, strict=True):
                mean = torch.stack(same).mean(dim=0)
                for tensor in same:
                    tensor.copy_(mean)
        return [[self.compressor.decode(payload) for payload in rounds.payloads] for rounds in running]


def keys_of(grads: Sequence[torch.Tensor], rank: int = 0, step: int = 0) -> list[compll.Key]:
    return [compll.Key(seed=3, step=step, gradient=i, rank=rank) for i in range(len(grads))]


def gradients(shapes: Sequence[tuple[int, ...]], seed: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator) for shape in shapes]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", [*PROGRAMS, "powersgd"])
def test_left_alone_it_is_encode(name: str, backend: str, folder: Path) -> None:
    """Bytes, states and reports; many gradients of three dtypes share their rounds."""
    c = compll.load(folder / f"{name}.cll" if name in PROGRAMS else name, backend=backend)
    grads = [g.to(dtype) for dtype in (torch.float32, torch.float16) for g in gradients(SHAPES, 1)]
    together, alone = ([c.init_state(g, key) for g, key in zip(grads, keys_of(grads))] for _ in range(2))
    for step in range(2):
        expected = c.encode_batch(grads, together, keys_of(grads, step=step))
        rounds = c.encode_rounds(grads, alone, keys_of(grads, step=step))
        seen = [[len(tensor) for tensor in tensors] for tensors in rounds]
        assert seen == [[s for s in sizes if s] for sizes in sizes_by_round(c, grads)]
        for a, b in zip(expected, rounds.payloads, strict=True):
            assert torch.equal(a.buffer, b.buffer) and (a.finite, a.cut, a.key) == (b.finite, b.cut, b.key)
    for a, b in zip(together, alone, strict=True):
        assert all(torch.equal(x, y) for (_, x), (_, y) in zip(a.tensors(), b.tensors(), strict=True))


def sizes_by_round(c: compll.Compressor, grads: Sequence[torch.Tensor]) -> list[list[int]]:
    sizes = [c.round_sizes(g) for g in grads if g.numel()]
    assert len({len(s) for s in sizes}) == 1
    return [list(row) for row in zip(*sizes, strict=True)]


@pytest.mark.parametrize("name", PROGRAMS)
def test_rounds_are_counted(name: str, folder: Path) -> None:
    c = compll.load(folder / f"{name}.cll")
    assert len(c.round_sizes(torch.zeros(4, 6))) == ROUNDS[name] and c.round_sizes(torch.zeros(0, 6)) == ()
    assert c.reduces_inside == (ROUNDS[name] > 0)
    assert list(c.encode_rounds([], [], [])) == []


def test_what_each_round_reduces(folder: Path) -> None:
    c = compll.load(folder / "three.cll")
    assert c.round_sizes(torch.zeros(4, 6)) == (1, 4, 6)


@pytest.mark.parametrize("backend", BACKENDS)
@settings(max_examples=15, deadline=None)
@given(rows=st.integers(1, 40), cols=st.integers(1, 40), world=st.integers(1, 3), seed=st.integers(0, 99))
def test_three_rounds_of_ranks(backend: str, rows: int, cols: int, world: int, seed: int, folder: Path) -> None:
    ranks = Ranks(compll.load(folder / "three.cll", backend=backend), [(rows, cols)], world)
    last = torch.zeros(cols)
    for step in range(2):
        grads = [gradients([(rows, cols)], seed + 7 * rank + step) for rank in range(world)]
        matrices = torch.stack([mine[0] for mine in grads])
        centered = matrices - matrices.mean()
        height = centered.abs().amax(dim=2).mean(dim=0)
        last = 0.5 * last + (centered / (1.0 + height)[:, None]).sum(dim=1).mean(dim=0)
        expected = height[:, None] + last + matrices.mean()
        for (found,), (state,) in zip(ranks.step(grads, step), ranks.states, strict=True):
            torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
            torch.testing.assert_close(state.states["last"], last, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", ["halves", "padded", "scaled", "powersgd"])
def test_what_was_given_is_applied_or_kept(name: str, backend: str, folder: Path) -> None:
    """On every rank, of its own gradient; without a payload all ranks apply the same bits."""
    c = compll.load(folder / f"{name}.cll" if name in PROGRAMS else name, backend=backend)
    ranks = Ranks(c, SHAPES, 3)
    for step in range(3):
        grads = [gradients(SHAPES, 10 * step + rank) for rank in range(3)]
        before = [[state.residual.clone() for state in states] for states in ranks.states]
        applied = ranks.step(grads, step)
        for rank in range(3):
            for g, old, out, state in zip(grads[rank], before[rank], applied[rank], ranks.states[rank], strict=True):
                assert torch.equal((g + old) - out, state.residual)
        if name != "scaled":
            assert all(torch.equal(a, b) for other in applied[1:] for a, b in zip(applied[0], other, strict=True))


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_mean_goes_into_the_payload(backend: str, folder: Path) -> None:
    ranks = Ranks(compll.load(folder / "scaled.cll", backend=backend), [(50,)], 2)
    grads = [gradients([(50,)], seed) for seed in (1, 2)]
    scale = (grads[0][0].abs().max() + grads[1][0].abs().max()) / 2
    for (g,), (out,) in zip(grads, ranks.step(grads), strict=True):
        assert torch.equal(out, torch.where(g >= 0, scale, -scale))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("threads", [False, True])
def test_encodings_may_overlap_and_change_threads(threads: bool, backend: str, folder: Path) -> None:
    """What lives from part to part belongs to its encoding."""
    c = compll.load(folder / "three.cll", backend=backend)
    batches = [gradients([(30, 20), (20, 30)], seed) for seed in range(4)]
    expected = [c.encode_batch(b, [c.init_state(g) for g in b], keys_of(b)) for b in batches]
    running = [c.encode_rounds(b, [c.init_state(g) for g in b], keys_of(b)) for b in batches]
    for _ in range(4):
        for rounds in running:
            in_thread(lambda: next(rounds, None)) if threads else next(rounds, None)
    for rounds, payloads in zip(running, expected, strict=True):
        assert all(torch.equal(a.buffer, b.buffer) for a, b in zip(rounds.payloads, payloads, strict=True))


def in_thread(work: Callable[[], object]) -> None:
    thread = Thread(target=work)
    thread.start()
    thread.join()


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_result_in_a_padded_view_stays_in_its_bytes(backend: str, folder: Path) -> None:
    (folder / "shifted.cll").write_text(
        "compressor shifted { encode(g: f32[blocks(8), 8]) { return all_reduce_mean(transpose(transpose(g + 1.0))); } }"
    )
    c = compll.load(folder / "shifted.cll", backend=backend)
    memory = torch.full((64,), 7.0)
    c.encode(torch.zeros(11), out=memory[:11].view(torch.uint8))
    assert memory.tolist() == [1.0] * 11 + [7.0] * 53
