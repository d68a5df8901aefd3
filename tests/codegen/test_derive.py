"""Derived functions: the feedback law, sanitised gradients, decode_add, and that scatters stay sparse."""

import numpy as np
import pytest

from compll.codegen import ir
from compll.codegen.convert import storage
from compll.codegen.interpret import to_view
from compll.codegen.philox import KeyWords
from tests.programs import ALGORITHMS, Interpreted

RANDOM = np.random.default_rng(11)
KEY = KeyWords(seed=1, owner=2, step=3, gradient_id=4)
NAMES = ["topk", "adtopk", "randomk", "onebit", "terngrad", "linear"]


def interpreted(name: str, shape: tuple[int, ...]) -> Interpreted:
    return Interpreted((ALGORITHMS / f"{name}.cll").read_text(), shape)


def with_feedback(program: Interpreted, gradient: np.ndarray, residual: np.ndarray) -> dict:
    return program.call(
        "encode_with_feedback", {("gradient", "gradient"): gradient, ("residual", "residual"): residual}, KEY
    )


@pytest.mark.parametrize("name", NAMES)
def test_what_is_kept_and_what_is_sent_is_what_was_there(name: str) -> None:
    shape = (9, 130) if name == "adtopk" else (1170,)
    gradient, residual = (RANDOM.standard_normal(shape).astype(np.float32) for _ in range(2))
    program = interpreted(name, shape)
    encoded = with_feedback(program, gradient, residual)
    acc, decoded = gradient + residual, program.decode(encoded, KEY)
    error = np.abs(encoded["residual", "residual"] + decoded - acc)
    assert (error <= 2 * np.spacing(np.maximum(np.abs(acc), np.abs(decoded)))).all()


@pytest.mark.parametrize("name", ["topk", "randomk"])
def test_a_selection_keeps_the_law_exactly(name: str) -> None:
    gradient, residual = (RANDOM.standard_normal(1170).astype(np.float32) for _ in range(2))
    program = interpreted(name, (1170,))
    encoded = with_feedback(program, gradient, residual)
    np.testing.assert_array_equal(
        encoded["residual", "residual"], gradient + residual - program.decode(encoded, KEY)
    )


def test_an_element_that_is_not_finite_counts_as_its_old_residual() -> None:
    gradient = np.array([1, np.nan, np.inf, 3e38, 0], np.float32)
    residual = np.array([1, 2, 3, 3e38, 5], np.float32)
    program = Interpreted((ALGORITHMS / "topk.cll").read_text(), (5,), ratio=1.0)
    encoded = with_feedback(program, gradient, residual)
    assert not encoded["finite", "finite"]
    np.testing.assert_array_equal(encoded["field", "value"], np.array([2, 2, 3, 3e38, 5], np.float32))
    clean = program.encode(gradient)
    np.testing.assert_array_equal(clean["field", "value"], np.array([1, 0, 0, 3e38, 0], np.float32))


@pytest.mark.parametrize("name", NAMES)
def test_decode_add_adds_what_decode_writes(name: str) -> None:
    shape = (9, 130) if name == "adtopk" else (1170,)
    program = interpreted(name, shape)
    encoded = program.encode(RANDOM.standard_normal(shape).astype(np.float32), KEY)
    start = RANDOM.standard_normal(shape).astype(np.float32)
    inputs = {port: array for port, array in encoded.items() if port[0] in ("field", "count")}
    added = program.call("decode_add", {**inputs, ("out", "out"): start}, KEY)["out", "out"]
    np.testing.assert_array_equal(added, start + program.decode(encoded, KEY))


@pytest.mark.parametrize("name", ["topk", "adtopk", "dgc", "randomk"])
def test_distinct_indices_need_no_dense_array(name: str) -> None:
    program = interpreted(name, (9, 130) if name == "adtopk" else (1170,)).program
    last = program.function("decode_add").operations[-1]
    assert isinstance(last, ir.Sweep)
    assert [type(sink) for sink in last.sinks] == [ir.Put]


def test_repeated_indices_take_the_dense_way() -> None:
    text = """compressor twice {
        feedback residual;
        payload { index: u32[4]; value: f32[4]; }
        encode(g: f32[n]) { return { index: iota(4) / 2, value: g[iota(4)] }; }
        decode(p) -> f32[n] { return scatter(n, p.index, p.value); }
    }"""
    gradient = np.arange(1, 9, dtype=np.float32)
    program = Interpreted(text, gradient.shape)
    encoded = with_feedback(program, gradient, np.zeros_like(gradient))
    np.testing.assert_array_equal(encoded["residual", "residual"] + program.decode(encoded), gradient)


@pytest.mark.parametrize("name", ["onebit", "terngrad", "linear", "efsignsgd", "tbq", "natural", "qsgd"])
def test_lazy_feedback_sends_the_same_and_keeps_the_same(name: str) -> None:
    assert_forms_agree(interpreted(name, (1170,)))


def assert_forms_agree(program: Interpreted) -> None:
    lazy = program.program.function("encode_with_lazy_feedback")
    gradients = RANDOM.standard_normal((4, 1170)).astype(np.float32)
    residual = np.zeros_like(to_view(program.program.gradient, gradients[0], program.environment))
    fields = {
        p.name: np.zeros(program.shape(p.value), storage(p.value.dtype)) for p in lazy.inputs if p.role == "previous"
    }
    acc = program.call("decode", {("field", n): f for n, f in fields.items()})["out", "out"]
    for step, gradient in enumerate(gradients):
        key = KeyWords(seed=1, owner=2, step=step, gradient_id=4)
        view = to_view(program.program.gradient, gradient, program.environment)
        inputs = {("gradient", "gradient"): view, ("residual", "residual"): residual}
        eager = program.call("encode_with_feedback", inputs, key)
        inputs["residual", "residual"] = acc
        before = {("previous", n): f for n, f in fields.items()}
        sent = program.call("encode_with_lazy_feedback", {**inputs, **before}, key)
        fields = {n: f for (role, n), f in sent.items() if role == "field"}
        for n, field in fields.items():
            np.testing.assert_array_equal(field, eager["field", n])
        acc, residual = sent["residual", "residual"], eager["residual", "residual"]
        after = {("previous", n): f for n, f in fields.items()}
        kept = program.call("lazy_residual", {("residual", "residual"): acc, **after})["out", "out"]
        used = np.arange(kept.size).reshape(kept.shape) < 1170
        np.testing.assert_array_equal(kept[used], residual[used])
        acc, residual = np.where(used, acc, 0), np.where(used, residual, 0)  # memory ends with the gradient


def test_the_padding_of_the_last_block_never_counts() -> None:
    text = """compressor blocksign {
        feedback residual;
        payload { scale: f32[blocks(64)]; code: u1[blocks(64), 64]; }
        encode(g: f32[blocks(64), 64]) {
            return { scale: mean(abs(g), axis = 1), code: u1(g >= 0 ? 1 : 0) };
        }
        decode(p) -> f32[blocks(64), 64] { return map(|q, s| q == 1 ? s : -s, p.code, p.scale); }
    }"""
    assert_forms_agree(Interpreted(text, (1170,)))


@pytest.mark.parametrize("name", ["topk", "adtopk", "dgc", "randomk", "threelc"])
def test_what_scatters_draws_or_counts_is_not_lazy(name: str) -> None:
    program = interpreted(name, (9, 130)).program
    assert "encode_with_lazy_feedback" not in [f.name for f in program.functions]
