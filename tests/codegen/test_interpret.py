"""The interpreter, sink by sink, against loops in Python; then whole random programs."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from samples import Body, array, port

from compll.codegen import ir
from compll.codegen.interpret import from_view, run, size_environment, to_view
from compll.codegen.philox import KeyWords
from compll.diagnostics import InternalError
from compll.dtypes import BOOL, F32, F64, I32, U32, uint
from compll.sizes import Num, Var, apply
from tests.strategies import MATRICES, cases, gradients

N, K, ROWS, COLS = Var("n"), Var("k"), Var("rows"), Var("cols")
KEY = KeyWords(seed=1, owner=2, step=3, gradient_id=4)


def execute(operations, inputs, outputs, environment, *, key=KEY, parameters=None):
    """Run operations with `inputs` [(value, array)]; the arrays of the values `outputs`."""
    function = ir.Function(
        name="f", inputs=tuple(port("state", v.name, v) for v, _ in inputs), operations=tuple(operations),
        outputs=tuple(port("state", v.name, v) for v in outputs),
    )  # fmt: skip
    arrays = {("state", v.name): a for v, a in inputs}
    found = run(function, arrays, environment, parameters or {}, key)
    return [found["state", v.name] for v in outputs]


def order(keys):
    """Positions by descending key: NaN first, lowest position on ties."""
    nan = [math.isnan(key) for key in keys]
    return sorted(range(len(keys)), key=lambda i: (not nan[i], 0.0 if nan[i] else -keys[i], i))


def by_row(x, per_row):
    return [list(r) for r in x] if per_row else [list(x.reshape(-1))]


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(MATRICES), st.booleans(), st.integers(0, 80), st.data())
def test_top_and_kth(shape, per_row, k, data):
    x = data.draw(gradients(shape[0] * shape[1])).reshape(shape)
    g, rows = array("g", ROWS, COLS), (ROWS,) if per_row else ()
    body = Body()
    v = body.load(g)
    index, value, kth = array("index", *rows, K, dtype=U32), array("value", *rows, K), array("kth", *rows)
    top = ir.Top(index=index, carried=((value, v),), key=v, k=K, per_row=per_row)
    sweep = body.sweep((ROWS, COLS), top, ir.Kth(result=kth, key=v, k=K, per_row=per_row))
    environment = {"rows": shape[0], "cols": shape[1], "k": k}
    found_index, found_value, found_kth = execute([sweep], [(g, x)], [index, value, kth], environment)
    for r, keys in enumerate(by_row(x, per_row)):
        best = order(keys)
        chosen = sorted(best[:k])
        pad = k - len(chosen)
        row_index, row_value = (a.reshape(-1, k)[r] if k else a.reshape(-1) for a in (found_index, found_value))
        assert row_index.tolist() == chosen + [len(keys)] * pad
        np.testing.assert_array_equal(row_value, np.array([keys[i] for i in chosen] + [0.0] * pad, np.float32))
        np.testing.assert_array_equal(found_kth.reshape(-1)[r], keys[best[min(max(k, 1), len(keys)) - 1]])
        assert found_kth.reshape(-1)[r] != 0 or not np.signbit(found_kth.reshape(-1)[r])


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 70), st.integers(0, 30), st.integers(0, 2**32 - 1), st.data())
def test_keep(n, limit, step, data):
    matches = np.array(data.draw(st.lists(st.booleans(), min_size=n, max_size=n)))
    m, x = array("m", N, dtype=BOOL), array("x", N)
    body = Body()
    predicate, v = body.load(m), body.load(x)
    count, cut = array("count", dtype=U32), array("cut", dtype=U32)
    index, value = array("index", K, dtype=U32, count="count"), array("value", K, count="count")
    keep = ir.Keep(index=index, count=count, cut=cut, carried=((value, v),), predicate=predicate, limit=K)
    values = np.arange(n, dtype=np.float32) + 1
    found = execute(
        [body.sweep((N,), keep)], [(m, matches), (x, values)], [index, value, count, cut], {"n": n, "k": limit},
        key=KeyWords(step=step),
    )  # fmt: skip
    start = step * limit % n
    cyclic = [p for p in [*range(start, n), *range(start)] if matches[p]]
    kept = sorted(cyclic[:limit])
    pad = [0] * (limit - len(kept))
    assert found[0].tolist() == kept + pad and found[1].tolist() == [p + 1 for p in kept] + pad
    assert [int(found[2]), int(found[3])] == [len(kept), len(cyclic) - len(kept)]


@pytest.mark.parametrize("n", [0, 3, 7])
def test_a_bounded_space_ends_at_its_count(n):
    """Sums, selections and filters see `n` elements of an array with room for 7; the rest of results is zero."""
    count, x = array("c", dtype=U32), array("x", Num(7), count="c")
    total, position = array("total"), array("at", dtype=U32)
    index, value, again = array("index", Num(5), dtype=U32), array("value", Num(5)), array("again", Num(7), count="c")
    body = Body()
    v = body.load(x)
    w = body.add("add", v, body.const(1.0))
    sinks = (
        ir.Fold(results=(total,), combine=ir.Combine(kind="add"), value=w),
        ir.Fold(results=(position,), combine=ir.Combine(kind="argmin"), value=v),
        ir.Top(index=index, carried=((value, w),), key=v, k=Num(5)),
        ir.Write(result=again, value=w),
    )
    values = np.array([5, -2, 4, 9, 1, 0, 3], np.float32)
    outputs = [total, position, index, value, again]
    inputs = [(count, np.array(n, np.uint32)), (x, values)]
    found = execute([body.sweep((Num(7),), *sinks, count="c")], inputs, outputs, {})
    seen = values[:n].tolist()
    best = sorted(order(seen)[:5])
    assert found[0] == sum(seen) + n and found[1] == (seen.index(min(seen)) if n else 0)
    assert found[2].tolist() == best + [n] * (5 - len(best))
    assert found[3].tolist() == [seen[i] + 1 for i in best] + [0] * (5 - len(best))
    assert found[4].tolist() == [v + 1 for v in seen] + [0] * (7 - n)


def test_a_count_beyond_the_capacity_is_harmless():
    count, x, total = array("c", dtype=U32), array("x", Num(3), count="c"), array("total")
    body = Body()
    fold = ir.Fold(results=(total,), combine=ir.Combine(kind="add"), value=body.load(x))
    inputs = [(count, np.array(2**32 - 1, np.uint32)), (x, np.ones(3, np.float32))]
    assert execute([body.sweep((Num(3),), fold, count="c")], inputs, [total], {}) == [3]


@pytest.mark.parametrize("with_base", [False, True])
def test_put_drops_what_lies_outside(with_base):
    i, x, base, result = array("i", K, dtype=U32), array("x", K), array("base", N), array("result", N)
    body = Body()
    put = ir.Put(result=result, base=base if with_base else None, index=body.load(i), value=body.load(x))
    index, values = np.array([4, 0, 5, 2**32 - 1], np.uint32), np.array([1, 2, 3, 4], np.float32)
    before = np.full(5, 9, np.float32)
    inputs = [(i, index), (x, values), (base, before)]
    (found,) = execute([body.sweep((K,), put)], inputs, [result], {"n": 5, "k": 4})
    assert found.tolist() == ([2, 9, 9, 9, 1] if with_base else [2, 0, 0, 0, 1])
    assert before.tolist() == [9] * 5


def test_put_counts_within_the_row_and_signed_indices_may_be_negative():
    i, x, result = array("i", ROWS, K, dtype=I32), array("x", ROWS, K), array("result", ROWS, N)
    body = Body()
    put = ir.Put(result=result, base=None, index=body.load(i), value=body.load(x))
    index = np.array([[2, 0], [3, -1]], np.int32)
    (found,) = execute(
        [body.sweep((ROWS, K), put)], [(i, index), (x, np.float32([[1, 2], [3, 4]]))], [result],
        {"rows": 2, "k": 2, "n": 3},
    )  # fmt: skip
    assert found.tolist() == [[2, 0, 1], [0, 0, 0]]


def test_loads_by_position_row_and_index():
    m, row, scalar, flat = array("m", ROWS, COLS), array("row", ROWS), array("scalar"), array("flat", N)
    results = [array(name, ROWS, COLS, dtype=t) for name, t in (("a", F32), ("b", F32), ("c", F32), ("d", U32))]
    body = Body()
    total = body.add("add", body.add("add", body.load(m), body.load(row)), body.load(scalar))
    column = body.add("position", dtype=U32, axis="column")
    one = body.const(1, U32)
    shifted = body.add("add", column, one, dtype=U32)
    within, beyond = body.at(m, shifted), body.at(flat, shifted)
    ten = body.add("mul", body.add("position", dtype=U32, axis="row"), body.const(10, U32), dtype=U32)
    place = body.add("add", ten, body.add("position", dtype=U32, axis="flat"), dtype=U32)
    writes = [ir.Write(result=r, value=v) for r, v in zip(results, (total, within, beyond, place), strict=True)]
    inputs = [
        (m, np.float32([[1, 2, 3], [4, 5, 6]])), (row, np.float32([10, 20])), (scalar, np.float32(100)),
        (flat, np.float32([7, 8])),
    ]  # fmt: skip
    environment = {"rows": 2, "cols": 3, "n": 2}
    found = execute([body.sweep((ROWS, COLS), *writes)], [(v, np.asarray(a)) for v, a in inputs], results, environment)
    assert found[0].tolist() == [[111, 112, 113], [124, 125, 126]]
    assert found[1].tolist() == [[2, 3, 0], [5, 6, 0]]
    assert found[2].tolist() == [[8, 0, 0], [8, 0, 0]]
    assert found[3].tolist() == [[0, 1, 2], [13, 14, 15]]


def test_leaves():
    results = [array("a"), array("b", dtype=U32), array("c", dtype=BOOL), array("d", dtype=I32), array("e", dtype=F64)]
    body = Body()
    leaves = (
        body.add("param", name="gain"), body.add("size", dtype=U32, value=apply("mul", K, Num(2))),
        body.add("param", dtype=BOOL, name="flag"), body.const(-7, I32), body.const(0.1, F64),
    )  # fmt: skip
    sweep = body.sweep((), *(ir.Write(result=r, value=v) for r, v in zip(results, leaves, strict=True)))
    found = execute([sweep], [], results, {"k": 21}, parameters={"gain": 0.1, "flag": True})
    assert [f.item() for f in found] == [float(np.float32(0.1)), 42, True, -7, 0.1]


def test_draws_count_from_the_flat_position_and_take_an_argument():
    flat, picked = array("flat", ROWS, COLS), array("picked", ROWS, COLS)
    body = Body()
    here = body.add("uniform", stream=5, shared=True, bits=32)
    reverse = body.add("sub", body.const(5, U32), body.add("position", dtype=U32, axis="flat"), dtype=U32)
    there = body.add("uniform", reverse, stream=5, shared=True, bits=32)
    sweep = body.sweep((ROWS, COLS), ir.Write(result=flat, value=here), ir.Write(result=picked, value=there))
    environment = {"rows": 2, "cols": 3}
    found = execute([sweep], [], [flat, picked], environment)
    assert len(set(found[0].reshape(-1).tolist())) == 6
    assert found[1].reshape(-1).tolist() == found[0].reshape(-1)[::-1].tolist()
    moved = execute([sweep], [], [flat, picked], environment, key=replace(KEY, base=2))
    assert moved[0].reshape(-1)[:4].tolist() == found[0].reshape(-1)[2:].tolist()


@pytest.mark.parametrize("descending", [False, True])
def test_sort(descending):
    x, y = array("x", ROWS, COLS), array("y", ROWS, COLS)
    values = np.float32([[0.0, np.nan, -0.0, np.inf, -1e-40, -np.inf], [3, 1, 2, 1, 0, -5]])
    (found,) = execute([ir.Sort(result=y, source=x, descending=descending)], [(x, values)], [y], {"rows": 2, "cols": 6})
    wanted = np.float32([[-np.inf, -1e-40, -0.0, 0.0, np.inf, np.nan], [-5, 0, 1, 1, 2, 3]])
    assert found.tobytes() == (wanted[:, ::-1] if descending else wanted).tobytes()


def test_matrix_operations():
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((5, 3)).astype(np.float32), rng.standard_normal((4, 3)).astype(np.float32)
    left, right, product = array("l", N, K), array("r", ROWS, K), array("p", N, ROWS)
    turned, mean = array("t", ROWS, N), array("m", ROWS, N)
    operations = [
        ir.MatMul(result=product, left=left, right=right, transpose_right=True),
        ir.Transpose(result=turned, source=product),
        ir.AllReduce(result=mean, source=turned),
    ]
    (found,) = execute(operations, [(left, a), (right, b)], [mean], {"n": 5, "k": 3, "rows": 4})
    np.testing.assert_allclose(found, b @ a.T, rtol=1e-5)


def test_orthonormalize():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((20, 4)).astype(np.float32)
    x[:, 2] = x[:, 0] * 2 - x[:, 1]  # dependent: becomes zero
    a, q = array("a", ROWS, K), array("q", ROWS, K)
    (found,) = execute([ir.Orthonormalize(result=q, source=a)], [(a, x)], [q], {"rows": 20, "k": 4})
    np.testing.assert_allclose(found.T @ found, np.diag([1, 1, 0, 1]), atol=1e-6)
    np.testing.assert_allclose(found @ (found.T @ x), x, atol=1e-5)


@pytest.mark.parametrize(("limit", "wanted"), [(0, 100.0), (2, 25.0), (10, 6.25)])
def test_a_loop_ends_at_its_condition_or_its_limit(limit, wanted):
    start, here, half, last, going = (array(n) for n in ("start", "here", "half", "last", "going"))
    going = array("going", dtype=BOOL)
    head, body = Body(), Body()
    head_sweep_value = head.add("gt", head.load(here), head.const(10.0), dtype=BOOL)
    loop = ir.Loop(
        limit=limit, carried=(ir.Carried(initial=start, parameter=here, yielded=half, result=last),),
        head=(head.sweep((), ir.Write(result=going, value=head_sweep_value)),), condition=going,
        body=(body.sweep((), ir.Write(result=half, value=body.add("mul", body.load(here), body.const(0.5)))),),
    )  # fmt: skip
    assert execute([loop], [(start, np.array(100, np.float32))], [last], {}) == [wanted]


def test_views_are_padded_and_cut():
    blocks = apply("ceil", apply("div", Var("numel"), Num(4)))
    view = ir.GradientView(kind="blocks", shape=(blocks, Num(4)), names=(None, None))
    x = np.arange(1, 7, dtype=np.float32)
    seen = to_view(view, x, {"numel": 6})
    assert seen.tolist() == [[1, 2, 3, 4], [5, 6, 0, 0]]
    assert from_view(seen, {"numel": 6}).tolist() == x.tolist()


def test_sizes_are_evaluated_in_order_in_float64():
    view = ir.GradientView(kind="flat", shape=(N,), names=("n",))
    sizes = (("k", apply("floor", apply("mul", Num(0.01), N))), ("limit", apply("add", K, Num(1))))
    program = ir.Program(
        name="p", gradient=view, parameters=(), sizes=sizes, states=(), fields=(), traits=(), feedback=False,
        functions=(),
    )  # fmt: skip
    assert size_environment(program, {"n": 5000}) == {"n": 5000, "k": 50, "limit": 51}


def test_a_missing_or_misshapen_input_is_named():
    x = array("x", N)
    with pytest.raises(InternalError, match=r"state `x` needs float32\[4\], got float32\[3\]"):
        execute([], [(x, np.zeros(3, np.float32))], [x], {"n": 4})
    function = ir.Function(name="f", inputs=(port("gradient", "g", x),), operations=(), outputs=())
    with pytest.raises(InternalError, match="function `f`: gradient `g` needs float32.*got nothing"):
        run(function, {}, {"n": 4}, {}, KEY)


def test_nans_come_out_canonical():
    x, code = array("x", N), array("code", N, dtype=uint(2))
    body = Body()
    write = ir.Write(result=code, value=body.add("cast", body.load(x), dtype=uint(2)))
    values = np.array([0xFFC00001, 0x7F800001], np.uint32).view(np.float32)
    found = execute([body.sweep((N,), write)], [(x, values)], [x, code], {"n": 2})
    assert found[0].view(np.uint32).tolist() == [0x7FC00000] * 2 and found[1].tolist() == [0, 0]


@settings(max_examples=100, deadline=None)
@given(cases())
def test_random_programs_are_total_and_depend_on_nothing_else(case):
    function = case.program.function("encode")
    environment = size_environment(case.program, case.environment)
    inputs = case.inputs()
    before = {name: a.tobytes() for name, a in inputs.items()}
    first, second = (run(function, inputs, environment, case.parameters, case.key) for _ in range(2))
    assert {n: a.tobytes() for n, a in first.items()} == {n: a.tobytes() for n, a in second.items()}
    assert {name: a.tobytes() for name, a in inputs.items()} == before
    counts = {n: int(a) for (role, n), a in first.items() if role == "count"}
    for field in case.program.fields:
        if field.count_of:
            assert not first["field", field.name][counts[field.count_of] :].any()


@settings(max_examples=60, deadline=None)
@given(cases())
def test_a_sweep_means_the_same_with_its_sinks_apart(case):
    """Fusion's licence: every sink of a sweep on its own gives what all of them together give."""
    function = case.program.function("encode")
    environment = size_environment(case.program, case.environment)

    def apart(operation):
        if not isinstance(operation, ir.Sweep):
            return [operation]
        return [replace(operation, sinks=(sink,)) for sink in operation.sinks]

    split = tuple(part for operation in function.operations for part in apart(operation))
    together = run(function, case.inputs(), environment, case.parameters, case.key)
    separate = run(replace(function, operations=split), case.inputs(), environment, case.parameters, case.key)
    assert {n: a.tobytes() for n, a in together.items()} == {n: a.tobytes() for n, a in separate.items()}
