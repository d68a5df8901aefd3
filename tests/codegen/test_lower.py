"""Lowering keeps the meaning: expressions run by the interpreter against NumPy written by hand."""

import numpy as np
import pytest

from compll.codegen.philox import KeyWords, choose
from compll.codegen.positions import check_positions
from compll.codegen.specialize import choose_alternatives, environment
from compll.diagnostics import CompllError, SourceFile
from compll.dsl.check import check, parameter_values
from compll.dsl.parse import parse
from tests.programs import ALGORITHMS, Interpreted, result_of

RANDOM = np.random.default_rng(7)
VECTOR = RANDOM.standard_normal(1000).astype(np.float32)
MATRIX = RANDOM.standard_normal((6, 70)).astype(np.float32)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("max(g)", VECTOR.max()),
        ("norm2(g)", np.sqrt((VECTOR.astype(np.float64) ** 2).sum()).astype(np.float32)),
        ("std(g)", VECTOR.astype(np.float64).std().astype(np.float32)),
        ("max(map(abs, g)) - 1.0", np.abs(VECTOR).max() - np.float32(1)),
        ("f32(count(g > 0.5))", np.float32((VECTOR > 0.5).sum())),
        ("reduce(g, -inf, |x, y| max(x, y))", VECTOR.max()),
        ("kth_largest(g, 10)", np.sort(VECTOR)[-10]),
        ("kth_largest(g, 10, by = abs)", np.sort(np.abs(VECTOR))[-10]),
        ("f32(argmin(g))", np.float32(VECTOR.argmin())),
        ("f32(n) / 8.0", np.float32(125)),
        ("sum(filter(g, |x| x > 1.0, at_most = n).value)", VECTOR[VECTOR > 1].sum()),
        ("max(abs(filter(abs(filter(g, |x| x < 0.0, at_most = n).value), |x| x < 1.0, at_most = n).value))",
         np.abs(VECTOR[(VECTOR < 0) & (VECTOR > -1)]).max()),
        ("sum(map(|x| x / sum(filter(g, |y| y > 1.0, at_most = n).value), g))",
         VECTOR.sum() / VECTOR[VECTOR > 1].sum()),
    ],
)
def test_scalars_of_a_vector(expression: str, expected: np.float32) -> None:
    assert result_of(expression, VECTOR) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(
    ("expression", "shape", "expected"),
    [
        ("max(g, axis = 1)", "rows", MATRIX.max(axis=1)),
        ("map(|x, m| x - m, g, min(g, axis = 1))", "rows, cols", MATRIX - MATRIX.min(axis=1)[:, None]),
        ("g * 2.0 - max(g)", "rows, cols", MATRIX * np.float32(2) - MATRIX.max()),
        ("sort(g)", "rows, cols", np.sort(MATRIX, axis=1)),
        ("transpose(g)", "cols, rows", MATRIX.T),
        ("kth_largest(g, 3)", "rows", np.sort(MATRIX, axis=1)[:, -3]),
    ],
)
def test_arrays_of_a_matrix(expression: str, shape: str, expected: np.ndarray) -> None:
    np.testing.assert_array_equal(result_of(expression, MATRIX, f"f32[{shape}]"), expected)


def test_a_bounded_loop_stops_at_its_condition() -> None:
    prelude = "let t = 1.0; repeat <= 10 while count(abs(g) > t) > 20 { t = t * 1.25; }"
    expected = np.float32(1)
    while (np.abs(VECTOR) > expected).sum() > 20:
        expected = expected * np.float32(1.25)
    assert result_of("t", VECTOR, prelude=prelude) == expected


def test_functions_on_scalars_and_arrays_are_expanded() -> None:
    text = """compressor shifted {
        feedback none;
        fn half(x: f32) -> f32 { let y = x * 0.5; return y; }
        fn centred(x: f32[n]) -> f32[n] { let m = mean(x); return x - m; }
        payload { r: f32[n]; }
        encode(g: f32[n]) { return { r: half(centred(g)) }; }
        decode(p) -> f32[n] { return p.r; }
    }"""
    encoded = Interpreted(text, VECTOR.shape).encode(VECTOR)
    np.testing.assert_allclose(encoded["field", "r"], (VECTOR - VECTOR.mean()) * 0.5, rtol=1e-5, atol=1e-7)


def test_draws_take_their_ordinal_in_source_order() -> None:
    program = Interpreted((ALGORITHMS / "randomk.cll").read_text(), (1000,), ratio=0.05)
    key = KeyWords(seed=3, owner=9, step=4, gradient_id=5)
    encoded = program.encode(VECTOR, key)
    index = choose(np.arange(50), 1000, key, 0, True)
    np.testing.assert_array_equal(encoded["field", "value"], VECTOR[index] * np.float32(20))
    decoded = program.decode(encoded, key)
    np.testing.assert_array_equal(decoded[index], VECTOR[index] * np.float32(20))
    assert np.count_nonzero(decoded) == 50


def test_states_are_read_old_and_written_new() -> None:
    text = """compressor running {
        state total: f32[n];
        payload { r: f32[n]; }
        encode(g: f32[n]) { let before = total; total = total + g; return { r: before }; }
        decode(p) -> f32[n] { return p.r; }
    }"""
    start = np.ones(1000, np.float32)
    encoded = Interpreted(text, VECTOR.shape).encode(VECTOR, total=start)
    np.testing.assert_array_equal(encoded["field", "r"], start)
    np.testing.assert_array_equal(encoded["state", "total"], start + VECTOR)


def test_blocks_pad_the_last_row_with_zeros() -> None:
    text = """compressor blocked {
        payload { norm: f32[blocks(64)]; }
        encode(g: f32[blocks(64), 64]) { return { norm: max(abs(g), axis = 1) }; }
        decode(p) -> f32[blocks(64), 64] { return map(|x, s| s, fill(blocks(64), 64, value = 0.0), p.norm); }
    }"""
    gradient = np.full(70, -2, np.float32)
    encoded = Interpreted(text, gradient.shape).encode(gradient)
    np.testing.assert_array_equal(encoded["field", "norm"], np.array([2, 2], np.float32))


def test_the_length_of_an_array_that_has_no_name_is_counted() -> None:
    result = result_of("f32(len(filter(g, |x| x > 0.5, at_most = 900).index))", VECTOR)
    assert result == (VECTOR > 0.5).sum()


def test_a_half_field_decodes_to_f32() -> None:
    text = """compressor halves {
        payload { v: f16[n]; }
        encode(g: f32[n]) { return { v: f16(g) }; }
        decode(p) -> f32[n] { return f32(p.v); }
    }"""
    program = Interpreted(text, VECTOR.shape)
    np.testing.assert_array_equal(program.decode(program.encode(VECTOR)), VECTOR.astype(np.float16).astype(np.float32))


def test_indices_that_do_not_fit_their_field_are_refused_by_name() -> None:
    text = """compressor narrow {
        payload { i: u8[4]; v: f32[4]; }
        encode(g: f32[n]) { let t = topk(g, 4); return { i: t.index, v: t.value }; }
        decode(p) -> f32[n] { return scatter(n, p.i, p.v); }
    }"""
    module, _ = check(parse(SourceFile("narrow.cll", text)))
    check_positions(module, (), environment(module, (256,), {}))
    with pytest.raises(CompllError, match="field `i` is u8.* indices reach 256"):
        check_positions(module, (), environment(module, (257,), {}))


@pytest.mark.parametrize("name", ["topk", "adtopk", "threshold", "randomk", "dgc", "graddrop"])
def test_positions_beyond_32_bits_are_refused(name: str) -> None:
    module, _ = check(parse(SourceFile("t.cll", (ALGORITHMS / f"{name}.cll").read_text())))
    for shape, fits in [((2**32 - 2,), True), ((2**32 - 1,), False), ((2**33,), False), ((2**33, 8), name == "adtopk")]:
        variables = environment(module, shape, parameter_values(module, {}))
        alternatives = choose_alternatives(module, variables)
        if fits:
            check_positions(module, alternatives, variables)
            continue
        with pytest.raises(CompllError, match=r"t.cll:\d+:\d+: error\[E0139\]: positions are u32.* 4294967294 "):
            check_positions(module, alternatives, variables)


@pytest.mark.parametrize(
    ("field", "given"), [("ascending(n * 1000)[k]", "iota(k)"), ("f32[k]", "sample(g, k)"), ("u32", "argmax(g)")]
)
def test_positions_of_any_kind_are_looked_at(field: str, given: str) -> None:
    text = f"""compressor t {{
        payload {{ v: {field}; }}
        encode(g: f32[n]) {{ size k = 3; return {{ v: {given} }}; }}
        decode(p) -> f32[n] {{ return fill(n, value = 0.0); }}
    }}"""
    module, _ = check(parse(SourceFile("t.cll", text)))
    check_positions(module, (), environment(module, (4_000_000,), {}))
    with pytest.raises(CompllError, match="E0139"):
        check_positions(module, (), environment(module, (2**32,), {}))
