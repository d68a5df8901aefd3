"""The CUDA device without a GPU: CuPy is a fake that runs kernels in the emulator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from differential.gradients import Run, differences, gradient
from runtime.fake_cupy import RESIDENT, FakeGpu, install, is_pointer

import compll
from compll.diagnostics import CompllError, InternalError
from compll.runtime import specialized
from compll.runtime.devices import cpu, cuda_batch

pytestmark = pytest.mark.skipif(cpu.available() is not None, reason="needs a C++ compiler")

Load = Callable[..., compll.Compressor]

#: A product that goes straight into a section, and one of a view whose last block is padded.
PRODUCTS = {
    "section": """compressor section {
        payload { p: f32[rows, rows]; }
        encode(g: f32[rows, cols]) { return { p: matmul(g, transpose(g)) }; }
        decode(p) -> f32[rows, cols] { return fill(rows, cols, value = 0.0); }
    }""",
    "padded": """compressor padded {
        payload { p: f32[blocks(8), 8]; }
        encode(g: f32[blocks(8), 8]) { return { p: g }; }
        decode(p) -> f32[blocks(8), 8] { return matmul(p.p, matmul(transpose(p.p), p.p)); }
    }""",
}

#: Two means over the ranks: of a number, and of one for each row.
ROUNDS = """compressor rounds {
    encode(m: f32[rows, cols]) {
        let center = all_reduce_mean(mean(m));
        return m / (1.0 + all_reduce_mean(max(abs(m - center), axis = 1)));
    }
}"""


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> FakeGpu:
    made = FakeGpu()
    install(made, monkeypatch)
    return made


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests of compiling start from an empty cache for the machine code; what g++ makes may stay."""
    code = import_module("compll.runtime.devices.cuda_code")
    kept = import_module("compll.runtime.cache")

    def cached(name: str, make: Callable[[Path], None]) -> Path:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("COMPLL_CACHE", str(tmp_path / "cache"))
            found: Path = kept.cached(name, make)
            return found

    monkeypatch.setattr(code, "cached", cached)


@pytest.fixture
def door(gpu: FakeGpu) -> ModuleType:
    return import_module("compll.runtime.devices.cuda")


@pytest.fixture
def load(door: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Load:
    """compll.load, with the CUDA device in the place of the one for CPU tensors."""
    device = door.CudaDevice()
    device_at = specialized.device_at

    def faked(place: torch.device, backend: str, what: str) -> Any:
        return device if backend == "auto" else device_at(place, backend, what)

    monkeypatch.setattr(specialized, "device_at", faked)
    return compll.load


def test_what_comes_out(load: Load) -> None:
    """Records, scratch, tiles and the order of launches: the reference's bytes, step after step."""
    for name in ("topk", "qsgd", "dgc", "adtopk"):
        gradients = [gradient((5, 1025), kind) for kind in ("normal", "awkward", "normal")]
        expected = Run(load(name, backend="reference")).steps(gradients)
        assert differences(expected, Run(load(name)).steps(gradients)) == []


SHAPES = [(1,), (33, 65), (4097,), (2, 9000), (300, 200)]


def test_batches(load: Load) -> None:
    compressor = load("topk", ratio=0.1)
    gradients = [gradient(shape, "normal", i) for i, shape in enumerate(SHAPES)]
    alone = [compressor.encode(g) for g in gradients]
    states = [compressor.init_state(g) for g in gradients]
    together = compressor.encode_batch(gradients, states, [compll.Key()] * len(gradients))
    assert all(torch.equal(a.buffer, b.buffer) for a, b in zip(alone, together, strict=True))


@pytest.mark.parametrize("name", ["topk", "dgc", "gaussiank", "threelc", "onebit"])
def test_few_launches(name: str, load: Load, gpu: FakeGpu) -> None:
    """Many gradients of different sizes cost the launches of one, and so do the payloads of many ranks."""
    compressor = load(name)
    gradients = [gradient(shape, "normal", i) for i, shape in enumerate(SHAPES)]
    states = [compressor.init_state(g) for g in gradients]
    gpu.launches.clear()
    payloads = compressor.encode_batch(gradients, states, [compll.Key(gradient=i) for i in range(len(SHAPES))])
    assert 0 < len(gpu.launches) <= 3
    gpu.launches.clear()
    compressor.decode_batch([[payload] * 4 for payload in payloads], [torch.empty_like(g) for g in gradients])
    assert 0 < len(gpu.launches) <= 2


@pytest.mark.parametrize("name", ["topk", "onebit"])
def test_merges(name: str, load: Load) -> None:
    """Rows of several lengths: the reference's bits."""
    reference = load(name, backend="reference")
    rows = []
    for i, shape in enumerate(SHAPES):
        ranks = [gradient(shape, "normal", 10 * i + rank) for rank in range(4)]
        rows.append([reference.encode(g) if (i + rank) % 3 else None for rank, g in enumerate(ranks)])
    for add in (False, True):
        expected, found = ([torch.full(shape, 2.0) for shape in SHAPES] for _ in range(2))
        reference.decode_batch(rows, expected, add=add)
        load(name).decode_batch(rows, found, add=add)
        assert all(torch.equal(a, b) for a, b in zip(expected, found, strict=True))


@pytest.mark.parametrize("name", PRODUCTS)
def test_products(name: str, load: Load, tmp_path: Path) -> None:
    path = tmp_path / f"{name}.cll"
    path.write_text(PRODUCTS[name])
    gradients = [gradient((3, 7), "normal", seed) for seed in range(2)]
    expected = Run(load(path, backend="reference")).steps(gradients)
    for a, b in zip(expected, Run(load(path)).steps(gradients), strict=True):
        torch.testing.assert_close(a["payload"].view(torch.float32), b["payload"].view(torch.float32))
        torch.testing.assert_close(a["decoded"], b["decoded"])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_low_rank(dtype: torch.dtype, load: Load) -> None:
    gradients = [gradient((30, 17), "normal", seed).to(dtype) for seed in range(3)]
    expected = Run(load("powersgd", backend="reference")).steps(gradients)
    for a, b in zip(expected, Run(load("powersgd")).steps(gradients), strict=True):
        torch.testing.assert_close(a["decoded"], b["decoded"], rtol=2e-2, atol=2e-2)


def test_rounds(load: Load, gpu: FakeGpu, tmp_path: Path) -> None:
    """Between two launches lie the means; all on the stream of the first."""
    path = tmp_path / "rounds.cll"
    path.write_text(ROUNDS)
    compressor = load(path)
    gradients = [gradient(shape, "normal", i) for i, shape in enumerate([(30, 20), (5,), (9, 300)])]
    key, expected = compll.Key(), [load(path, backend="reference").encode(g) for g in gradients]
    running = compressor.encode_rounds(gradients, [compressor.init_state(g) for g in gradients], [key] * 3)
    seen = []
    for tensors in running:
        seen.append((len(gpu.launches), [len(tensor) for tensor in tensors]))
    assert [sizes for _, sizes in seen] == [[1, 1, 1], [30, 1, 9]] and seen[0][0] < seen[1][0] < len(gpu.launches)
    for a, b in zip(expected, running.payloads, strict=True):
        assert torch.equal(a.buffer, b.buffer)
    strayed = compressor.encode_rounds(gradients[:1], [compressor.init_state(gradients[0])], [key])
    next(strayed)
    gpu.stream += 0x100
    with pytest.raises(CompllError, match="has to go on on the stream on which it began"):
        next(strayed)


def test_launches(load: Load, gpu: FakeGpu) -> None:
    """On torch's stream of the tensors' device; whole blocks; pointers as arguments; cooperative ones all at once."""
    gpu.stream = 0x7700
    load("topk").encode(gradient(100_000, "normal"))
    for launch in gpu.launches:
        assert (launch.stream, launch.device) == (0x7700, torch.device("cpu"))
        assert len(launch.grid) == 1 and len(launch.block) == 1 and launch.block[0] % 32 == 0
        assert len(launch.arguments) == (3 if launch.together else 2) and all(is_pointer(a) for a in launch.arguments)
    tiles = -(-100_000 // 16384)
    found = [(launch.together, launch.grid[0]) for launch in gpu.launches]
    assert found == [(False, 1), (False, tiles), (True, RESIDENT)]


def tile_addresses(gpu: FakeGpu) -> list[int]:
    found = [int(launch.arguments[1]) for launch in gpu.launches]
    gpu.launches.clear()
    return found


def test_what_is_kept(load: Load, gpu: FakeGpu) -> None:
    """Tiles and scratch are made once for the same shapes on the same stream."""
    compressor, large, small = load("topk"), gradient(40_000, "normal"), gradient(100, "normal")
    state = compressor.init_state(large)
    compressor.encode(large, state)
    first = tile_addresses(gpu)
    compressor.encode(small)
    assert tile_addresses(gpu) != first
    compressor.encode(large, state)
    assert tile_addresses(gpu) == first
    gpu.stream = 0x6000
    compressor.encode(large, state)
    assert tile_addresses(gpu) != first


def test_a_captured_call_keeps_to_itself(load: Load, gpu: FakeGpu) -> None:
    """Its graph may run later beside other calls: tiles and scratch are its own, and nobody else gets them."""
    compressor, grad = load("topk"), gradient(40_000, "normal")
    compressor.encode(grad)
    usual = tile_addresses(gpu)
    gpu.capturing = True
    compressor.encode(grad)
    assert set(tile_addresses(gpu)).isdisjoint(usual)
    gpu.capturing = False
    compressor.encode(grad)
    assert tile_addresses(gpu) == usual


def test_few_batches_are_kept(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_batch, "KEPT_BATCHES", 2)
    compressor = load("topk")
    expected = [load("topk", backend="reference").encode(gradient(n, "normal")).buffer for n in (100, 200, 300)]
    for _ in range(2):
        found = [compressor.encode(gradient(n, "normal")).buffer for n in (100, 200, 300)]
        assert all(torch.equal(a, b) for a, b in zip(expected, found, strict=True))


def test_positions_of_64_bits(load: Load, gpu: FakeGpu, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where an array is too long for positions of 32 bits, other text is compiled, and gives the same bytes."""
    monkeypatch.setattr(cuda_batch, "WIDE", 1000)
    compressor = load("topk")
    for n, wide in ((999, False), (1000, True)):
        found = compressor.encode(gradient(n, "normal")).buffer
        assert torch.equal(found, load("topk", backend="reference").encode(gradient(n, "normal")).buffer)
        assert ("#define COMPLL_WIDE" in gpu.nvrtc.compiled[-1][0]) == wide


def test_a_launch_that_fails(load: Load, gpu: FakeGpu) -> None:
    gpu.problem = RuntimeError("CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was encountered")
    with pytest.raises(InternalError, match=r"CUDA refused kernel `encode\w*` of `topk` \(CUDA_ERROR"):
        load("topk").encode(gradient(100, "normal"))


# --- what is there ---------------------------------------------------------------------------------------------------


def no_nvrtc() -> tuple[int, int]:
    raise RuntimeError('Failure finding "libnvrtc.so.13"\n  searched in ...')


def test_available(gpu: FakeGpu, door: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    assert door.available() is None
    gpu.devices = 0
    assert door.available() == "no CUDA device"
    gpu.devices = door.cupy.cuda.runtime.CUDARuntimeError("cudaErrorInsufficientDriver: CUDA driver version is ...")
    assert door.available().startswith("CuPy cannot use the NVIDIA driver: cudaErrorInsufficientDriver")
    gpu.devices = 1
    monkeypatch.setattr(gpu.nvrtc, "getVersion", no_nvrtc)
    assert door.available().endswith('Failure finding "libnvrtc.so.13"')


def test_presence(gpu: FakeGpu, monkeypatch: pytest.MonkeyPatch) -> None:
    presence = import_module("compll.runtime.devices.presence")
    answers: Sequence[tuple[object, str, object, str]] = (
        (torch.version, "cuda", None, "without CUDA"),
        (torch.cuda, "is_available", lambda: False, "no CUDA device"),
        (presence, "find_spec", lambda name: None, "CuPy is not installed"),
    )
    good = ("13.0", lambda: True, lambda name: object())
    for i, (place, name, bad, message) in enumerate(answers):
        monkeypatch.setattr(place, name, bad)
        assert message in presence.cuda_problem()
        monkeypatch.setattr(place, name, good[i])
    assert presence.cuda_problem() is None
    assert presence.open_cuda().name == "cuda"
    monkeypatch.setattr(presence, "_DOOR", "compll.runtime.devices.no_such_door")
    assert presence.cuda_problem().startswith("CuPy cannot be imported")
