"""Encode and decode inside what torch.compile compiles, against the same calls outside."""

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._dynamo.testing import CompileCounterWithBackend

import compll
from compll import CompllError, Compressor, Key, State
from compll.runtime import operators
from compll.runtime.devices import available_devices

pytestmark = pytest.mark.skipif("cpu" not in available_devices(), reason="no C++ compiler")

#: A sparsifier with feedback, a residual in two parts, two states, private draws without a state.
PROGRAMS = {"topk": {"ratio": 0.1}, "onebit": {}, "dgc": {"ratio": 0.1}, "terngrad": {}}

SHAPE = (40, 30)


@pytest.fixture(autouse=True)
def fresh_dynamo() -> None:
    torch._dynamo.reset()


def gradient(seed: int, *shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(shape or SHAPE, generator=torch.Generator().manual_seed(seed)).to(dtype)


def same_state(a: State, b: State) -> bool:
    pairs = zip(a.clone().tensors(), b.clone().tensors(), strict=True)
    return all(name == other and torch.equal(x, y) for (name, x), (other, y) in pairs)


def step(c: Compressor) -> Callable[..., Any]:
    def run(grad: torch.Tensor, state: State, key: Key) -> tuple[Any, ...]:
        payload = c.encode(grad, state, key=key)
        received = c.payload(payload.buffer, like=grad, key=key)
        total = c.decode(received, out=torch.ones_like(grad), add=True)
        return payload, c.decode(payload, like=grad), total

    return run


@pytest.mark.parametrize("name", PROGRAMS)
def test_compiled_steps_are_the_steps(name: str) -> None:
    c = compll.load(name, backend="cpu", **PROGRAMS[name])
    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(step(c), fullgraph=True, backend=counter)
    state, expected = c.init_state(gradient(0)), c.init_state(gradient(0))
    for i in range(4):
        mine = compiled(gradient(i), state, Key(seed=1, step=i, gradient=2, rank=3))
        theirs = step(c)(gradient(i), expected, Key(seed=1, step=i, gradient=2, rank=3))
        assert torch.equal(mine[0].buffer, theirs[0].buffer) and mine[0].key == theirs[0].key
        assert (mine[0].finite, mine[0].cut) == (theirs[0].finite, theirs[0].cut)
        assert torch.equal(mine[1], theirs[1]) and torch.equal(mine[2], theirs[2])
        assert same_state(state, expected)
    assert counter.frame_count <= 2  # the step number becomes a variable once


def test_what_surrounds_is_compiled_with_it() -> None:
    c = compll.load("onebit", backend="cpu")
    state, expected = c.init_state(gradient(0)), c.init_state(gradient(0))

    @torch.compile(fullgraph=True)
    def clipped(grad: torch.Tensor, state: State) -> torch.Tensor:
        scaled = grad.clamp(-1.0, 1.0)
        return c.decode(c.encode(scaled, state)) + state.residual

    for i in range(3):
        sent = c.decode(c.encode(gradient(i).clamp(-1.0, 1.0), expected))
        assert torch.equal(clipped(gradient(i), state), sent + expected.residual)
        assert same_state(state, expected)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_narrow_gradients_in_any_memory_format(dtype: torch.dtype) -> None:
    c = compll.load("onebit", backend="cpu")
    grad = gradient(0, 2, 8, 5, 5, dtype=dtype).contiguous(memory_format=torch.channels_last)
    state, expected = c.init_state(grad), c.init_state(grad)
    compiled = torch.compile(step(c), fullgraph=True, backend="aot_eager")
    for i in range(2):
        mine, theirs = compiled(grad, state, Key(step=i)), step(c)(grad, expected, Key(step=i))
        assert torch.equal(mine[0].buffer, theirs[0].buffer)
        assert mine[1].dtype == dtype and torch.equal(mine[1], theirs[1]) and torch.equal(mine[2], theirs[2])
    assert same_state(state, expected)


def test_without_a_state_the_initial_one_is_used() -> None:
    c = compll.load("dgc", backend="cpu")
    compiled = torch.compile(lambda g: c.encode(g).buffer, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(gradient(0)), c.encode(gradient(0)).buffer)
    assert torch.equal(compiled(gradient(0)), c.encode(gradient(0)).buffer)


def test_into_a_given_buffer() -> None:
    c = compll.load("topk", backend="cpu")
    compiled = torch.compile(lambda g, out: c.encode(g, out=out).buffer, fullgraph=True, backend="aot_eager")
    out = torch.full((c.payload_bytes(SHAPE),), 255, dtype=torch.uint8)
    assert compiled(gradient(0), out).data_ptr() == out.data_ptr()
    assert torch.equal(out, c.encode(gradient(0)).buffer)


def test_every_shape_has_its_size() -> None:
    c = compll.load("topk", ratio=0.07, backend="cpu")
    compiled = torch.compile(lambda g: c.encode(g).buffer, fullgraph=True, backend="aot_eager")
    for shape in [(10, 10), (20, 10), (33, 7), (0, 3), (1,)]:
        assert torch.equal(compiled(gradient(1, *shape)), c.encode(gradient(1, *shape)).buffer)


def test_other_parameters_take_over_a_residual_in_two_parts() -> None:
    narrow = compll.load("linear", bits=3, backend="cpu")
    wide = narrow.with_params(bits=6)
    state, expected = narrow.init_state(gradient(0)), narrow.init_state(gradient(0))
    assert len(state.parts()) == 2  # else this tests nothing
    for s in (state, expected):
        narrow.encode(gradient(0), s)
    compiled = torch.compile(lambda g, s: wide.encode(g, s).buffer, fullgraph=True, backend="aot_eager")
    for i in range(1, 3):
        assert torch.equal(compiled(gradient(i), state), wide.encode(gradient(i), expected).buffer)
        assert same_state(state, expected)
    assert torch.equal(wide.encode(gradient(3), state).buffer, wide.encode(gradient(3), expected).buffer)


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("shape", [SHAPE, (0, 4)])
def test_opcheck(name: str, shape: tuple[int, ...]) -> None:
    c = compll.load(name, backend="cpu", **PROGRAMS[name])
    grad = gradient(0, *shape)
    state = c.init_state(grad)
    payload = c.encode(grad, state)
    words = (1, 2, 3, 0)
    torch.library.opcheck(operators.encode, (c.handle, grad, state.parts(), False, *words))
    torch.library.opcheck(operators.encode, (c.handle, grad, [], True, *words))
    for add in (False, True):
        arguments = (c.handle, payload.buffer, torch.zeros(shape), torch.float32, add, *words)
        torch.library.opcheck(operators.decode, arguments)
    if state.previous is not None:
        arguments = (c.handle, *state.parts(), torch.float32)
        torch.library.opcheck(operators.form_residual, arguments)


def test_mutations_are_declared() -> None:
    for name, argument in [("encode", "[] state"), ("decode", " out"), ("form_residual", " residual")]:
        schema = str(getattr(torch.ops.compll, name).default._schema)
        assert schema.count("!") == 1 and f"!){argument}" in schema


def test_operators_called_by_name() -> None:
    c = compll.load("onebit", backend="cpu")
    grad, key = gradient(0), Key(seed=4, step=5, gradient=6, rank=7)
    state, expected = c.init_state(grad), c.init_state(grad)
    one_part = [torch.zeros(SHAPE)]
    for _ in range(2):
        sent = c.encode(grad, expected, key=key)
        for parts in (state.parts(), one_part):
            buffer, finite, cut = torch.ops.compll.encode(c.handle, grad, parts, False, 4, 5, 6, 7)
            assert torch.equal(buffer, sent.buffer) and finite.item() and cut.item() == 0
    assert torch.equal(one_part[0], expected.clone().residual)
    out = torch.empty(SHAPE)
    torch.ops.compll.decode(c.handle, sent.buffer, out, torch.float32, False, 4, 5, 6, 7)
    assert torch.equal(out, c.decode(sent))


def test_equal_compressors_have_one_handle_until_the_last_is_gone() -> None:
    first, second = (compll.load("topk", ratio=0.03, backend="cpu") for _ in range(2))
    other_backend = compll.load("topk", ratio=0.03, backend="reference")
    others = [first.with_params(ratio=0.04), first.with_feedback(False), other_backend]
    assert first.handle == second.handle and len({c.handle for c in [first, *others]}) == 4
    assert others[0].with_params(ratio=0.03).handle == first.handle
    handle, seen = first.handle, weakref.ref(second)
    del first
    gc.collect()
    assert torch.equal(operators.compressors.find(handle).encode(gradient(0)).buffer, second.encode(gradient(0)).buffer)
    del second
    gc.collect()
    assert seen() is None
    with pytest.raises(CompllError, match=f"no compressor has the handle `{handle}`"):
        torch.ops.compll.encode(handle, gradient(0), [], True, 0, 0, 0, 0)


def test_compiled_code_of_a_compressor_serves_its_equal() -> None:
    def compiled_by(c: Compressor) -> torch.Tensor:
        return torch.compile(lambda g: c.encode(g).buffer, fullgraph=True, backend="aot_eager")(gradient(0))

    expected = compll.load("topk", ratio=0.1).encode(gradient(0)).buffer
    for ratio in (0.1, 0.2, 0.1):
        gc.collect()
        assert torch.equal(compiled_by(compll.load("topk", ratio=ratio)), expected) == (ratio == 0.1)


def test_mistakes_are_named() -> None:
    c = compll.load("topk", backend="cpu")
    grad, short, words = gradient(0), torch.zeros(3, dtype=torch.uint8), (0, 0, 0, 0)
    encode, decode = torch.ops.compll.encode, torch.ops.compll.decode
    for call, text in [
        (lambda: encode(c.handle, grad, [], False, *words), "needs a state with a residual"),
        (lambda: encode(c.handle, grad, [torch.zeros(3)], False, *words), "`residual` needs shape"),
        (lambda: encode(c.handle, grad, [grad, grad], False, *words), "got 2 tensors, which are no parts"),
        (lambda: encode(c.handle, grad, [], True, -1, 0, 0, 0), "`seed` needs a whole number"),
        (lambda: decode(c.handle, short, grad, grad.dtype, False, *words), f"needs {c.payload_bytes(SHAPE)} bytes"),
    ]:
        with pytest.raises(CompllError, match=text):
            call()
