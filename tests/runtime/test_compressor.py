"""Compressor objects against formulas written here: sizes, states, dtypes, memory formats, errors."""

import random
from pathlib import Path

import numpy as np
import pytest
import torch

import compll
from compll import CompllError, Compressor, Key, State
from compll.runtime.devices import available_devices

BACKENDS = [name for name in ("reference", "cpu") if name in available_devices()]

IDENTITY = """compressor identity {
    trait linear;
    payload { value: f32[n]; }
    encode(g: f32[n]) { return { value: g }; }
    decode(p) -> f32[n] { return p.value; }
}
"""

#: No payload: what encode returns is the result.
HALVED = "compressor halved { feedback residual; encode(g: f32[n]) { return map(|x| x * 0.5, g); } }"

#: A state whose initial value is random, and one that counts.
STATEFUL = """compressor stateful {
    state noise: f32[n] = random.normal(shared = true);
    state total: f32[n];
    payload { value: f32[n]; }
    encode(g: f32[n]) {
        total = total + g;
        return { value: total + noise };
    }
    decode(p) -> f32[n] { return p.value; }
}
"""


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def program(tmp_path: Path, text: str, backend: str) -> Compressor:
    path = tmp_path / "program.cll"
    path.write_text(text)
    return compll.load(path, backend=backend)


def gradient(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def kept(x: torch.Tensor, k: int) -> torch.Tensor:
    """The k entries of largest magnitude, zeros elsewhere."""
    flat = x.reshape(-1)
    index = flat.abs().topk(k).indices
    return torch.zeros_like(flat).index_copy(0, index, flat[index]).view(x.shape)


def test_topk_with_feedback_over_steps(backend: str) -> None:
    c = compll.load("topk", ratio=0.1, backend=backend)
    g = gradient(30, 40)
    state = c.init_state(g)
    residual = torch.zeros_like(g)
    for step in range(3):
        g = gradient(30, 40, seed=step)
        payload = c.encode(g, state, key=Key(step=step))
        sent = kept(g + residual, 120)
        residual = g + residual - sent
        assert torch.equal(c.decode(payload, like=g), sent)
        assert state.residual is not None and torch.equal(state.residual, residual)
        assert payload.nbytes == c.payload_bytes(g.shape, g.dtype) and payload.finite and payload.cut == 0


def test_without_state_nothing_is_kept(backend: str) -> None:
    c = compll.load("topk", ratio=0.1, backend=backend)
    g = gradient(50, 20)
    assert torch.equal(c.decode(c.encode(g)), kept(g, 100))


def test_feedback_may_be_switched_off(backend: str) -> None:
    c = compll.load("topk", ratio=0.1, backend=backend).with_feedback(False)
    g = gradient(50, 20)
    state = c.init_state(g)
    assert state.residual is None
    assert torch.equal(c.decode(c.encode(g, state)), kept(g, 100))


def test_feedback_may_be_switched_on(backend: str) -> None:
    c = compll.load("terngrad", backend=backend).with_feedback(True)
    g = gradient(1000)
    state = c.init_state(g)
    sent = c.decode(c.encode(g, state, key=Key(seed=3)))
    assert state.residual is not None
    assert torch.allclose(sent + state.residual, g, atol=1e-6)


def test_bytes_round_trip(backend: str) -> None:
    c = compll.load("randomk", ratio=0.1, backend=backend)
    g, key = gradient(1000), Key(seed=1, step=2, gradient=3)
    payload = c.encode(g, key=key)
    received = c.payload(bytes(payload.buffer.tolist()), like=g, key=key)
    assert torch.equal(c.decode(received, like=g), c.decode(payload))
    assert not torch.equal(c.decode(c.payload(payload.buffer, like=g, key=Key(seed=9)), like=g), c.decode(payload))
    assert received.finite and received.cut == 0


def test_misaligned_bytes_decode(backend: str) -> None:
    c = compll.load("topk", ratio=0.1, backend=backend)
    g = gradient(1000)
    payload = c.encode(g)
    shifted = torch.cat([torch.zeros(3, dtype=torch.uint8), payload.buffer])[3:]
    assert torch.equal(c.decode(c.payload(shifted, like=g)), c.decode(payload))


def test_out_of_encode_is_overwritten(backend: str) -> None:
    c = compll.load("dgc", ratio=0.01, backend=backend)
    g = gradient(100, 100)
    fresh = c.encode(g, c.init_state(g))
    out = torch.full((fresh.nbytes,), 255, dtype=torch.uint8)
    given = c.encode(g, c.init_state(g), out=out)
    assert given.buffer.data_ptr() == out.data_ptr() and torch.equal(out, fresh.buffer)


def test_decode_into_out_and_add(tmp_path: Path, backend: str) -> None:
    c = program(tmp_path, IDENTITY, backend)
    g = gradient(33, 3)
    payload = c.encode(g)
    out = torch.ones(33, 3)
    assert c.decode(payload, out=out, add=True) is out and torch.equal(out, 1 + g)
    assert torch.equal(c.decode(payload, out=out), g) and torch.equal(out, g)
    half = torch.ones(33, 3, dtype=torch.float16)
    c.decode(payload, out=half, add=True)
    assert torch.equal(half, (1 + g).half())
    strided = torch.zeros(3, 33).t()
    c.decode(payload, out=strided)
    assert torch.equal(strided, g)
    with pytest.raises(CompllError, match="`add` needs `out`"):
        c.decode(payload, add=True)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_narrow_gradients_are_widened_and_rounded_once(tmp_path: Path, backend: str, dtype: torch.dtype) -> None:
    c = program(tmp_path, IDENTITY, backend)
    g = gradient(100, 11).to(dtype)
    payload = c.encode(g)
    assert payload.nbytes == c.payload_bytes(g.shape, dtype) == 4 * 1100
    assert torch.equal(c.decode(payload, like=g), g)
    assert torch.equal(c.decode(payload, like=g.float()), g.float())
    ranks = [c.encode(torch.full((8, 8), v, dtype=dtype)) for v in (1.0, 2.0**-12, 2.0**-12)]
    out = torch.empty(8, 8, dtype=dtype)
    c.decode_batch([ranks], [out], mean=False)
    assert torch.equal(out, torch.full((8, 8), 1.0 + 2.0**-11).to(dtype))


def test_logical_order_whatever_the_memory_format(tmp_path: Path, backend: str) -> None:
    c = program(tmp_path, IDENTITY, backend)
    g = gradient(2, 3, 4, 5)
    payload = c.encode(g.contiguous(memory_format=torch.channels_last))
    assert torch.equal(payload.buffer.view(torch.float32), g.reshape(-1))
    turned = g.transpose(0, 1)
    assert torch.equal(c.encode(turned).buffer.view(torch.float32), turned.reshape(-1))


@pytest.mark.parametrize("name", ["topk", "adtopk", "dgc", "randomk", "onebit", "terngrad"])
@pytest.mark.parametrize("shape", [(0,), (0, 5), (5, 0)])
def test_zero_elements_have_empty_payloads(name: str, shape: tuple[int, ...], backend: str) -> None:
    c = compll.load(name, backend=backend)
    g = torch.zeros(shape)
    state = c.init_state(g)
    payload = c.encode(g, state)
    assert payload.nbytes == c.payload_bytes(shape) == 0
    assert c.decode(payload, like=g).shape == g.shape


@pytest.mark.parametrize("shape", [(), (1,), (1, 1), (2, 3, 4, 5)])
def test_any_number_of_dimensions(shape: tuple[int, ...], backend: str) -> None:
    c = compll.load("adtopk", ratio=1.0, backend=backend)
    g = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    assert torch.equal(c.decode(c.encode(g), like=g), g)


def test_program_without_payload_sends_its_result(tmp_path: Path, backend: str) -> None:
    c = program(tmp_path, HALVED, backend)
    g = gradient(9, 7)
    state = c.init_state(g)
    payload = c.encode(g, state)
    assert payload.nbytes == c.payload_bytes(g.shape) == 4 * 63
    assert torch.equal(c.decode(payload, like=g), g / 2)
    assert state.residual is not None and torch.equal(state.residual, g / 2)
    assert torch.equal(c.decode(payload, out=torch.ones(9, 7), add=True), 1 + g / 2)


def test_states_start_as_declared_and_move(tmp_path: Path, backend: str) -> None:
    c = program(tmp_path, STATEFUL, backend)
    g = gradient(40, 50)
    state, same, other = c.init_state(g), c.init_state(g, Key(rank=5)), c.init_state(g, Key(seed=1))
    noise = state.states["noise"].clone()
    assert torch.equal(noise, same.states["noise"]) and not torch.equal(noise, other.states["noise"])
    assert abs(noise.mean()) < 0.1 and abs(noise.std() - 1) < 0.1
    assert not state.states["total"].any()
    c.encode(g, state)
    out = c.decode(c.encode(g, state)).view(-1)
    assert torch.equal(out, (g.view(-1) + g.view(-1)) + noise)
    assert torch.equal(state.states["noise"], noise) and torch.equal(state.states["total"], 2 * g.view(-1))


def test_state_dict_round_trip(backend: str) -> None:
    c = compll.load("dgc", backend=backend)
    g = gradient(64, 64)
    state, resumed = c.init_state(g), c.init_state(g)
    c.encode(g, state)
    saved = state.state_dict()
    uninterrupted = c.encode(g, state, key=Key(step=1))
    resumed.load_state_dict(saved)
    assert not torch.equal(resumed.states["velocity"], state.states["velocity"])
    assert torch.equal(c.encode(g, resumed, key=Key(step=1)).buffer, uninterrupted.buffer)
    with pytest.raises(CompllError, match=r"`state velocity` needs shape \(16,\), got \(4096,\)"):
        c.init_state(gradient(16)).load_state_dict(saved)


@pytest.mark.parametrize("name", ["topk", "adtopk", "dgc", "randomk", "onebit", "terngrad"])
def test_a_batch_is_the_sum_of_its_parts(name: str, backend: str) -> None:
    c = compll.load(name, backend=backend)
    grads = [gradient(*shape, seed=i) for i, shape in enumerate([(70, 33), (1, 5), (128,), (0, 3), (2, 70000)])]
    keys = [Key(seed=4, step=5, gradient=i, rank=1) for i in range(len(grads))]
    alone_states, states = [c.init_state(g) for g in grads], [c.init_state(g) for g in grads]
    alone = [c.encode(g, s, key=k) for g, s, k in zip(grads, alone_states, keys)]
    batch = c.encode_batch(grads, states, keys)
    outs = [torch.empty_like(g) for g in grads]
    c.decode_batch([[p] for p in batch], outs)
    for one, many, mine, theirs, out in zip(alone, batch, alone_states, states, outs):
        assert torch.equal(one.buffer, many.buffer)
        assert torch.equal(c.decode(one), out)
        for (_, a), (_, b) in zip(mine.tensors(), theirs.tensors()):
            assert torch.equal(a, b)


def test_mean_over_ranks_counts_those_without_gradient(tmp_path: Path, backend: str) -> None:
    c = program(tmp_path, IDENTITY, backend)
    a, b = gradient(6, 6), gradient(6, 6, seed=1)
    pa, pb = c.encode(a), c.encode(b)
    outs = [torch.full((6, 6), torch.nan) for _ in range(3)]
    c.decode_batch([[pa, None, pb], [None, pb, None], [None, None, None]], outs)
    assert torch.equal(outs[0], (a + b) / 3) and torch.equal(outs[1], b / 3) and not outs[2].any()


def test_not_finite_is_reported_and_replaced(backend: str) -> None:
    c = compll.load("topk", ratio=1.0, backend=backend)
    g = gradient(10, 10)
    state = c.init_state(g)
    g[3, 4], g[5, 5] = torch.nan, torch.inf
    payload = c.encode(g, state)
    expected = torch.where(g.isfinite(), g, torch.zeros(()))
    assert not payload.finite
    assert torch.equal(c.decode(payload), expected)


def test_what_a_full_section_cuts_is_counted(tmp_path: Path, backend: str) -> None:
    text = """compressor first {
        payload { index: u32[<= 10]; value: f32[len(index)]; }
        encode(g: f32[n]) {
            let chosen = filter(g, |x| x != 0.0, at_most = 10);
            return { index: chosen.index, value: chosen.value };
        }
        decode(p) -> f32[n] { return scatter(n, p.index, p.value); }
    }"""
    c = program(tmp_path, text, backend)
    payload = c.encode(torch.ones(25))
    assert payload.cut == 15
    assert c.decode(payload).tolist() == [1.0] * 10 + [0.0] * 15


def test_values_that_are_arguments_share_a_compilation(backend: str) -> None:
    c = compll.load("topk", ratio=0.5, backend=backend)
    assert c.sized((8, 8)).compilation is c.with_params(ratio=0.1).sized((8, 8)).compilation
    assert c.payload_bytes((8, 8)) > c.with_params(ratio=0.1).payload_bytes((8, 8))


def test_global_generators_are_untouched(backend: str) -> None:
    before = (torch.get_rng_state(), random.getstate(), np.random.get_state()[1].copy())
    for name in ("terngrad", "randomk", "dgc"):
        c = compll.load(name, backend=backend)
        g = gradient(64, 64)
        c.decode(c.encode(g, c.init_state(g)))
    assert torch.equal(before[0], torch.get_rng_state())
    assert before[1] == random.getstate() and (before[2] == np.random.get_state()[1]).all()


def test_mistakes_are_named(backend: str) -> None:
    c = compll.load("topk", backend=backend)
    g = gradient(10, 10)
    payload = c.encode(g)
    for call, text in [
        (lambda: c.encode(g.double()), "needs a gradient of torch.float32, .*, got torch.float64"),
        (lambda: c.encode(g.to_sparse()), "`grad` needs a dense tensor"),
        (lambda: c.encode(g, c.init_state(gradient(5))), r"`residual` needs shape \(10, 10\), got \(5,\)"),
        (lambda: c.encode(g, State(residual=None, states={})), "needs a state with a residual"),
        (lambda: c.encode(g, out=torch.zeros(3, dtype=torch.uint8)), "needs .* bytes for this gradient, got 3"),
        (lambda: c.encode(g, out=torch.zeros(99)), "contiguous 1-D torch.uint8 tensor, got 1-D torch.float32"),
        (lambda: c.payload(payload.buffer[:-1], like=g), f"needs {payload.nbytes} bytes .*, got {payload.nbytes - 1}"),
        (lambda: c.payload(b"", like=g), f"needs {payload.nbytes} bytes for this gradient, got 0"),
        (lambda: c.decode(payload, like=gradient(9, 10)), r"`out` needs shape \(10, 10\), got \(9, 10\)"),
        (lambda: c.decode(payload, out=torch.zeros(10, 10, dtype=torch.int32)), "floating-point tensor"),
        (lambda: compll.load("dgc", backend=backend).encode(g, State(residual=None, states={})), "a state `velocity`"),
    ]:
        with pytest.raises(CompllError, match=text):
            call()


def test_a_state_of_another_dtype_is_refused(backend: str) -> None:
    c = compll.load("topk", backend=backend)
    g = gradient(10, 10)
    with pytest.raises(CompllError, match="`residual` needs a contiguous tensor of torch.float32, got a contiguous"):
        c.encode(g, State(residual=torch.zeros(10, 10, dtype=torch.float64), states={}))


def test_tensors_on_other_devices_are_refused(backend: str) -> None:
    c = compll.load("topk", backend=backend)
    g, elsewhere = gradient(8, 8), torch.ones(8, 8, device="meta")
    state = c.init_state(g)
    for call, text in [
        (lambda: c.encode(elsewhere), "tensors for `[a-z]+` need to be on the CPU or a CUDA device, got `meta`"),
        (lambda: c.encode(g, State(residual=elsewhere, states={})), "`residual` needs to be on `cpu`, got `meta`"),
        (lambda: c.encode_batch([g, elsewhere], [state, state], [Key(), Key()]), "`grad` needs to be on `cpu`"),
    ]:
        with pytest.raises(CompllError, match=text):
            call()
