"""The typed tree: what an expression's type is, for programs without a mistake."""

from __future__ import annotations

from pathlib import Path

import pytest
from dsl_sources import ALGORITHMS, source_of, wrapped

from compll.diagnostics import CompllError, SourceFile
from compll.dsl import ast
from compll.dsl.check import check
from compll.dsl.facts import walk
from compll.dsl.parse import parse
from compll.dsl.types import ArrayType, Bounded, RecordType, SizeType
from compll.sizes import evaluate


def typed(statements: str, declarations: str = "") -> ast.Compressor:
    return check(parse(wrapped(statements, declarations)))[0].compressor


def matrix(expression: str) -> str:
    """The type of an expression over `g: f32[rows, cols]`, with a row value `r`, as text."""
    text = f"let r = sum(g, axis = 1); let x = {expression}; return g;"
    module = parse(SourceFile("t", f"compressor t {{ encode(g: f32[rows, cols]) {{ {text} }} }}"))
    return str(_bound(check(module)[0].compressor, "x"))


def vector(expression: str, declarations: str = "") -> str:
    """The type of an expression over `g: f32[n]`, as text."""
    return str(_bound(typed(f"let x = {expression}; return g;", declarations), "x"))


def _bound(compressor: ast.Compressor, name: str) -> object:
    return next(s.value.type for s in compressor.encode.body if isinstance(s, ast.Let) and s.name == name)


@pytest.mark.parametrize("path", ALGORITHMS, ids=lambda path: path.stem)
def test_algorithms_have_no_error_and_no_warning(path: Path) -> None:
    module, warnings = check(parse(source_of(path)))
    assert not warnings
    for node in walk(module):
        assert not isinstance(node, ast.ExpressionNode) or node.type is not None, node.span.text
        assert not isinstance(node, ast.TypeExpression) or node.resolved is not None, node.span.text


@pytest.mark.parametrize(
    ("expression", "type_"),
    [
        ("g * 2", "f32[n]"),
        ("1 - g", "f32[n]"),
        ("g > 0", "bool[n]"),
        ("g > 0 ? 2 : 1", "i32[n]"),
        ("g > 0 ? 2 : 1.0", "f32[n]"),
        ("u2(g) + u4(g)", "u32[n]"),
        ("f16(g) * bf16(g)", "f32[n]"),
        ("bits(g) & 0xff800000", "u32[n]"),
        ("-1", "i32"),
        ("1 << 4 | 3", "i32"),
        ("u32(1) << 4", "u32"),
        ("max(g)", "f32"),
        ("max(g, 0)", "f32[n]"),
        ("clamp(i32(g), 0, 3)", "i32[n]"),
        ("count(g > 0)", "u32"),
        ("argmax(g)", "u32"),
        ("topk(g, 5).index", "u32[5]"),
        ("topk(g > 0 ? 3 : 4, 5).value", "i32[5]"),
        ("kth_largest(g, 5, by = |x| i32(x))", "i32"),
        ("filter(g, |x, i| i < 3, at_most = 9).value", "f32[<= 9]"),
        ("len(filter(g, |x| x > 0, at_most = 9).index)", "u32"),
        ("g[iota(7)]", "f32[7]"),
        ("g[3]", "f32"),
        ("map(|i| g[i], iota(7))", "f32[7]"),
        ("map(|x| x - mean(g), g)", "f32[n]"),
        ("scatter(9, iota(3), 1.0)", "f32[9]"),
        ("scan(g, 0, |a, b| a + b, exclusive = true)", "f32[n]"),
        ("reduce(u8(g), 0, |a, b| a ^ b)", "u32"),
        ("cumsum(u2(g))", "u32[n]"),
        ("sort(i32(g), descending = true)", "i32[n]"),
        ("sample(g, 64)", "f32[64]"),
        ("random.choose(n, 5)", "u32[5]"),
        ("random.uniform(n, 2, bits = 16)", "f32[n, 2]"),
        ("fill(4, value = true)", "bool[4]"),
        ("where(g > 0, g, -g)", "f32[n]"),
        ("fma(g, g, 1)", "f32[n]"),
        ("from_bits(bits(g) + 1)", "f32[n]"),
        ("popcount(bits(g))", "u32[n]"),
        ("f32(n) / 2", "f32"),
        ("i32(n - numel / 2)", "i32"),
    ],
)
def test_types_over_a_vector(expression: str, type_: str) -> None:
    assert vector(expression) == type_


@pytest.mark.parametrize(
    ("expression", "type_"),
    [
        ("g / r", "f32[rows, cols]"),
        ("map(|x, a| x > a, g, r)", "bool[rows, cols]"),
        ("max(g)", "f32"),
        ("max(g, axis = 1)", "f32[rows]"),
        ("argmin(g, axis = 1)", "u32[rows]"),
        ("reduce(g, 1, |a, b| a * b, axis = 1)", "f32[rows]"),
        ("topk(g, 3, by = abs).value", "f32[rows, 3]"),
        ("kth_largest(g, 3)", "f32[rows]"),
        ("g[topk(g, 3).index]", "f32[rows, 3]"),
        ("scatter(cols, topk(g, 3).index, topk(g, 3).value)", "f32[rows, cols]"),
        ("cumsum(g)", "f32[rows, cols]"),
        ("sort(g)", "f32[rows, cols]"),
        ("transpose(g)", "f32[cols, rows]"),
        ("matmul(transpose(g), g)", "f32[cols, cols]"),
        ("orthonormalize(g)", "f32[rows, cols]"),
        ("all_reduce_mean(r)", "f32[rows]"),
    ],
)
def test_types_over_a_matrix(expression: str, type_: str) -> None:
    assert matrix(expression) == type_


def test_a_whole_number_has_the_type_of_its_context() -> None:
    body = typed("let x = g > 0 ? 2 : 1; let y = f32(x) + 3; return y;").encode.body
    numbers = {node.span.text: str(node.type) for node in walk(body) if isinstance(node, ast.Number)}
    assert numbers == {"0": "f32", "2": "i32", "1": "i32", "3": "f32"}


def test_a_size_carries_its_value_in_the_programs_words() -> None:
    body = typed("size k = max(1, floor(ratio * n)); let t = topk(g, k + 1); return g;", "param ratio: f32 = 0.1;")
    definition, let, _ = body.encode.body
    assert isinstance(definition, ast.SizeDefinition) and isinstance(definition.value.type, SizeType)
    assert evaluate(definition.value.type.value, {"ratio": 0.01, "n": 5000}) == 50
    assert isinstance(let, ast.Let) and isinstance(let.value.type, RecordType)
    assert evaluate(dict(let.value.type.fields)["index"].shape[0], {"k": 4}) == 5  # type: ignore[arg-type]


def test_blocks_and_len_become_sizes() -> None:
    text = """compressor t { param b: i32 = 4;
        encode(g: f32[blocks(b), b]) { size m = len(topk(g, 3).index) + blocks(10); return g * f32(m); } }"""
    compressor = check(parse(SourceFile("t", text)))[0].compressor
    definition = compressor.encode.body[0]
    assert isinstance(definition, ast.SizeDefinition) and isinstance(definition.value.type, SizeType)
    assert evaluate(definition.value.type.value, {"numel": 101}) == 3 + 11
    shape = compressor.encode.type.resolved
    assert shape is not None and [evaluate(d, {"numel": 101, "b": 4}) for d in shape.shape] == [26, 4]  # type: ignore


def test_sizes_that_are_equal_by_value_agree() -> None:
    assert vector("g[iota(2 * 3)] + g[iota(6)]") == "f32[6]"
    typed("size k = ceil(n / 2); size m = floor((n + 1) / 2); let x = g[iota(k)] + g[iota(m)]; return g * sum(x);")
    with pytest.raises(CompllError):
        typed("size k = ceil(n / 2); size m = floor(n / 2); let x = g[iota(k)] + g[iota(m)]; return g * sum(x);")


def test_two_parameters_of_equal_default_do_not_agree() -> None:
    declarations = "param a: i32 = 4; param b: i32 = 4;"
    with pytest.raises(CompllError, match="lengths do not agree"):
        typed("let x = g[iota(a)] + g[iota(b)]; return g * sum(x);", declarations)


def test_a_payload_field_is_bounded_by_its_own_name() -> None:
    module = check(parse(source_of(next(p for p in ALGORITHMS if p.stem == "dgc"))))[0]
    types = [field.alternatives[0][1].resolved for field in module.compressor.payload]
    bounds = [t.shape[0] for t in types if isinstance(t, ArrayType)]
    assert [b.origin for b in bounds if isinstance(b, Bounded)] == ["index", "index"]


def test_positions_know_their_extent() -> None:
    module = check(parse(source_of(next(p for p in ALGORITHMS if p.stem == "adtopk"))))[0]
    value = module.compressor.encode.body[-1]
    assert isinstance(value, ast.ReturnFields)
    type_ = value.fields[0].value.type
    assert isinstance(type_, ArrayType) and type_.indices is not None and str(type_.indices.below) == "cols"


def test_calls_are_canonical() -> None:
    body = typed("let x = topk(k = 3, x = g); let y = filter(g, |v| v > 0, 5); return g;").encode.body
    calls = [c for c in walk(body) if isinstance(c, ast.Call)]
    assert {c.function: [(a.name, a.value.span.text) for a in c.arguments] for c in calls} == {
        "topk": [(None, "g"), (None, "3")],
        "filter": [(None, "g"), (None, "|v| v > 0"), ("at_most", "5")],
    }


# --- fns -------------------------------------------------------------------------------------------------------------

UNIT = "fn unit(x: f32[m]) -> f32[m] { return x / norm2(x) * f32(m); }"


def test_a_fn_appears_once_for_each_binding_of_its_dimensions() -> None:
    compressor = typed("let a = unit(g); let b = unit(g[iota(5)]); let c = unit(a); return c * sum(b);", UNIT)
    shapes = {f.name: str(f.parameters[0].type.resolved) for f in compressor.functions}
    assert shapes == {"unit": "f32[n]", "unit@2": "f32[5]"}
    called = [c.function for c in walk(compressor.encode.body) if isinstance(c, ast.Call) and "unit" in c.function]
    assert called == ["unit", "unit@2", "unit"]


def test_a_fn_of_scalars_maps_over_arrays() -> None:
    compressor = typed("return half(g);", "fn half(x: f32) -> f32 { return x / 2; }")
    returned = compressor.encode.body[0]
    assert isinstance(returned, ast.Return) and isinstance(returned.value, ast.Call)
    assert returned.value.function == "map" and str(returned.value.type) == "f32[n]"


def test_fns_may_call_fns_and_use_parameters() -> None:
    functions = f"{UNIT} fn scaled(y: f32[p]) -> f32[p] {{ return unit(y) * gain; }} param gain: f32 = 2.0;"
    compressor = typed("return scaled(g);", functions)
    assert [f.name for f in compressor.functions] == ["scaled", "unit"]


def test_a_deep_chain_of_fns_is_refused() -> None:
    functions = ["fn s0(x: f32) -> f32 { return x; }"]
    functions += [f"fn s{i}(x: f32) -> f32 {{ return s{i - 1}(x); }}" for i in range(1, 400)]
    with pytest.raises(CompllError, match="E0126"):
        typed("return map(s399, g);", " ".join(functions))


# --- states, loops, conditions ---------------------------------------------------------------------------------------


def test_a_state_may_be_as_long_as_a_size_of_encode() -> None:
    compressor = typed("size k = floor(n / 3); kept = kept + g[iota(k)]; return g;", "state kept: f32[k];")
    resolved = compressor.states[0].type.resolved
    assert resolved is not None and evaluate(resolved.shape[0], {"n": 10}) == 3  # type: ignore[arg-type]


@pytest.mark.parametrize("initial", ["1.0", "random.normal(shared = true)", "fill(value = 2)", "random.uniform(n)"])
def test_initial_values_of_a_state(initial: str) -> None:
    state = typed("s = s + g; return s;", f"state s: f32[n] = {initial};").states[0]
    assert state.initial is not None and isinstance(state.initial.type, ArrayType)


def test_locals_are_carried_round_a_loop() -> None:
    text = "let t = 1.0; let c = 0; repeat <= 5 while any(g > t) { let d = t * 2; t = d; c = c + 1; }"
    text += " return g * t + f32(c);"
    assert isinstance(typed(text).encode.body[2], ast.Repeat)


def test_conditional_fields_take_the_computing_type() -> None:
    text = """compressor t { param half: bool = true;
        payload { v: f16[n] if half else f32[n]; i: u16[k] if n < 65537 else u32[k]; }
        encode(g: f32[n]) { size k = min(n, 3); return { v: g, i: topk(g, k).index }; }
        decode(p) -> f32[n] { return p.v + scatter(n, p.i, 1.0); } }"""
    module, warnings = check(parse(SourceFile("t", text)))
    assert not warnings
    decode = module.compressor.decode
    assert decode is not None
    members = {node.name: str(node.type) for node in walk(decode.body) if isinstance(node, ast.Member)}
    assert members == {"v": "f32[n]", "i": "u32[k]"}


def test_an_array_of_full_length_fills_a_bounded_field() -> None:
    text = """compressor t { payload { i: u32[<= k]; v: f32[len(i)]; }
        encode(g: f32[n]) { size k = min(n, 3); let t = topk(g, k); return { i: t.index, v: t.value }; }
        decode(p) -> f32[n] { return scatter(n, p.i, p.v); } }"""
    check(parse(SourceFile("t", text)))


def test_errors_come_in_source_order_and_once() -> None:
    text = "let a = b; let c = d + b; let e = f(a, c); return a;"
    with pytest.raises(CompllError) as caught:
        typed(text)
    assert [d.message for d in caught.value.diagnostics] == [
        "unknown name `b`", "unknown name `d`", "unknown name `b`", "unknown function `f`",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("mistyped", "hint"),
    [
        ("return zzz;", ""),
        ("let total = sum(g); return g * totl;", "did you mean `total`?"),
        ("return sqr(g);", "did you mean `sqrt`?"),
        ("return g * sum(g, axes = 1);", "did you mean `axis`?"),
    ],
)
def test_did_you_mean(mistyped: str, hint: str) -> None:
    with pytest.raises(CompllError) as caught:
        typed(mistyped)
    assert caught.value.diagnostics[0].hint == hint
