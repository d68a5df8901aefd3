"""The optimising middle as a whole: what remains, and that it means the same."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from compll.codegen import ir
from compll.codegen.convert import canonical
from compll.codegen.interpret import run, size_environment
from compll.codegen.kernels import partition
from compll.codegen.passes import PIPELINE, optimise
from compll.codegen.passes.fuse import fuse_sweeps
from compll.codegen.verify import verify
from compll.dtypes import U32
from tests.codegen import samples
from tests.codegen.build import K_OF_N, Body, K, N, array, assert_same_meaning, flat_program, folded, mapped, port
from tests.codegen.plan_runner import PlanRunner
from tests.strategies import Case, cases

RANDOM = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


def shape_of(function: ir.Function) -> list[tuple[str, list[str]]]:
    """The kinds of sinks of each sweep, by the extents of its space."""
    return [
        (",".join(map(str, o.shape)), [type(s).__name__ for s in o.sinks]) if isinstance(o, ir.Sweep) else ("loop", [])
        for o in function.operations
    ]


@pytest.mark.parametrize("make", samples.SAMPLES, ids=lambda make: make.__name__)
@pytest.mark.parametrize("numel", [1, 33, 700])
def test_samples_mean_the_same(make, numel: int) -> None:
    program = make()
    assert_same_meaning(program, optimise(program), numel)


@pytest.mark.parametrize("make", samples.SAMPLES, ids=lambda make: make.__name__)
def test_optimising_twice_changes_nothing(make) -> None:
    once = optimise(make())
    twice = optimise(once)
    # A value that is stored and used in one sweep is cheaper to form again, as seen from the other: its reader in the
    # same sweep no longer shows. Only lazy feedback has such values.
    lazy = ("encode_with_lazy_feedback",)
    assert [f for f in twice.functions if f.name not in lazy] == [f for f in once.functions if f.name not in lazy]


def outputs_of(case: Case, keep: list[bool]) -> Case:
    """The case with some of the fields only, so that the rest may vanish."""
    function = case.program.function("encode")
    needed = {p.name for p in function.outputs if p.role == "count"}
    chosen = {f.name for f, kept in zip(case.program.fields, keep + [True] * 99) if kept or f.name in needed}
    outputs = tuple(p for p in function.outputs if p.role == "state" or p.name in chosen)
    fields = tuple(f for f in case.program.fields if f.name in chosen)
    program = replace(case.program, fields=fields, functions=(replace(function, outputs=outputs),))
    return replace(case, program=program)


@given(case=cases(), keep=st.lists(st.booleans(), min_size=12, max_size=12))
@RANDOM
def test_random_programs_mean_the_same(case: Case, keep: list[bool]) -> None:
    case = outputs_of(case, keep)
    verify(case.program)
    optimised = optimise(case.program)
    before, after = case.program.function("encode"), optimised.function("encode")
    environment = size_environment(case.program, case.environment)
    expected = run(before, case.inputs(), environment, case.parameters, case.key)
    found = run(after, case.inputs(), environment, case.parameters, case.key)
    plan = partition(optimised, after, "f32")
    planned = PlanRunner(plan, environment, case.parameters, case.key).run(after, case.inputs())
    for name, value in expected.items():
        assert value.tobytes() == found[name].tobytes(), name
        assert value.tobytes() == canonical(planned[name]).tobytes(), name


@pytest.mark.parametrize("step", PIPELINE, ids=lambda step: step.__name__)
def test_every_pass_alone_keeps_the_meaning(step) -> None:
    for make in samples.SAMPLES:
        program = make()
        after = step(program)
        verify(after)
        assert_same_meaning(program, after, 65)


def test_a_pass_without_effect_returns_the_same_object() -> None:
    done = optimise(samples.top_k())
    assert all(step(done) is done for step in PIPELINE)


def test_selection_with_feedback_is_one_pass_and_a_scatter() -> None:
    function = optimise(samples.top_k()).function("encode_with_feedback")
    assert shape_of(function) == [("n", ["Write", "Fold", "Top"]), ("k", ["Put"])]


def test_row_wise_selection_is_one_pass_although_all_of_it_must_be_finite() -> None:
    function = optimise(samples.row_top_k()).function("encode_with_feedback")
    assert shape_of(function)[0] == ("rows,cols", ["Write", "Fold", "Top"])
    assert [space for space, _ in shape_of(function)].count("rows,cols") == 1


def test_two_means_take_one_pass_and_codes_a_second() -> None:
    function = optimise(samples.sign_mean()).function("encode_with_feedback")
    assert shape_of(function) == [("n", ["Fold"] * 4), ("", ["Write"] * 2), ("n", ["Write"] * 2)]


def test_a_draw_is_made_once() -> None:
    function = optimise(samples.ternary()).function("encode_with_feedback")
    draws = [s for o in function.operations for s in o.body if s.opcode == "uniform"]
    assert len(draws) == 1 and dict(draws[0].attributes)["stream"] == 0


def test_a_sample_of_a_state_does_not_make_the_state_first() -> None:
    function = optimise(samples.momentum_filter()).function("encode")
    assert shape_of(function) == [("64", ["Kth"]), ("n", ["Fold", "Write", "Write", "Keep"]), ("k", ["Put", "Put"])]


def test_a_loop_computes_what_it_reads_of_one_array() -> None:
    function = optimise(samples.search()).function("encode_with_feedback")
    loop = next(o for o in function.operations if isinstance(o, ir.Loop))
    (count,) = [o for o in loop.body if isinstance(o, ir.Sweep) and o.shape == (N,)]
    assert [s.opcode for s in count.body][:2] == ["load", "abs"]
    assert len(loop.body) == 2  # the count, and one sweep of scalars


def _chain(*operations: ir.Operation, fields: list[ir.Value], states: tuple[str, ...] = (), new=()) -> ir.Function:
    outputs = [port("field", v.name, v) for v in fields] + [port("state", s, v) for s, v in zip(states, new)]
    declared = tuple(ir.Field(name=v.name, dtype=v.dtype, shape=v.shape) for v in fields)
    program = flat_program("chain", list(operations), outputs, declared, None, states=states)
    verify(program)
    after = fuse_sweeps(program)
    verify(after)
    assert_same_meaning(program, after, 97)
    return after.function("encode")


def test_what_is_dear_is_stored_once() -> None:
    """exp(g) is read before and after its own maximum is known: two sweeps, and a function worth a store."""
    grown, top, ratio, total = array("grown", N), array("top"), array("ratio", N), array("total")
    function = _chain(
        mapped(grown, "exp", array("g", N)),
        folded(top, "max", grown),
        mapped(ratio, "div", grown, top),
        folded(total, "add", ratio),
        fields=[total],
    )
    exponentials = [s for o in function.operations for s in o.body if s.opcode == "exp"]
    assert len(exponentials) == 1


def test_many_gathers_are_stored_once() -> None:
    """near[i] = g[i + 1] + g[i + 2] + .. + g[i + 4], read by two sweeps."""
    near, top, ratio, total = array("near", N), array("top"), array("ratio", N), array("total")
    body = Body()
    here = body.add("position", dtype=U32, axis="flat")
    at = [body.add("add", here, body.const(i, U32), dtype=U32) for i in range(1, 5)]
    value = body.at(array("g", N), at[0])
    for index in at[1:]:
        value = body.add("add", value, body.at(array("g", N), index))
    function = _chain(
        body.sweep((N,), ir.Write(result=near, value=value)),
        folded(top, "max", near),
        mapped(ratio, "div", near, top),
        folded(total, "add", ratio),
        fields=[total],
    )
    assert shape_of(function) == [("n", ["Write", "Fold"]), ("n", ["Fold"])]


def test_what_is_cheap_is_computed_again() -> None:
    doubled, top, ratio, total = array("doubled", N), array("top"), array("ratio", N), array("total")
    function = _chain(
        mapped(doubled, "add", array("g", N), array("g", N)),
        folded(top, "max", doubled),
        mapped(ratio, "div", doubled, top),
        folded(total, "add", ratio),
        fields=[total],
    )
    assert not any(isinstance(s, ir.Write) for o in function.operations for s in o.sinks if o.shape)


def test_a_fold_waits_for_a_later_pass_over_its_space() -> None:
    """`early` could be made at once, but `late` needs a pass over g anyway."""
    early, few, small, late = array("early"), array("few", K), array("small"), array("late")
    shifted = array("shifted", N)
    first = Body()
    taken = first.at(array("g", N), first.add("position", dtype=U32, axis="flat"))
    function = _chain(
        folded(early, "max", array("g", N)),
        first.sweep((K,), ir.Write(result=few, value=taken)),
        folded(small, "min", few),
        mapped(shifted, "sub", array("g", N), small),
        folded(late, "add", shifted),
        fields=[early, late],
    )
    assert shape_of(function) == [("k", ["Fold"]), ("n", ["Fold", "Fold"])]


def test_a_gather_beyond_the_array_is_still_zero() -> None:
    """The gathered array is a map of ones, so only the guard makes the zeros."""
    ones, out = array("ones", K), array("out", N)
    body = Body()
    at = body.at(ones, body.add("position", dtype=U32, axis="flat"))
    function = _chain(
        mapped(ones, "add", 0.5, 0.5),
        body.sweep((N,), ir.Write(result=out, value=at)),
        fields=[out],
    )
    (sweep,) = function.operations
    assert any(s.opcode == "select" for s in sweep.body)


def test_an_old_state_is_read_before_it_is_replaced() -> None:
    """The state's new value is ready at once, but its old one is needed after a reduction."""
    new, top, shifted, low = array("new", N), array("top"), array("shifted", N), array("low")
    g, old = array("g", N), array("s", N)
    function = _chain(
        mapped(new, "mul", old, 0.5),
        folded(top, "max", g),
        mapped(shifted, "sub", old, top),
        folded(low, "min", shifted),
        fields=[low],
        states=("s",),
        new=(new,),
    )
    writer = max(i for i, o in enumerate(function.operations) for s in o.sinks if isinstance(s, ir.Write))
    readers = [i for i, o in enumerate(function.operations) for s in o.body if s.source and s.source.name == "s"]
    assert max(readers) <= writer


@pytest.mark.parametrize("matrix", [False, True])
def test_a_draw_asked_for_at_an_index_is_that_of_the_index(matrix: bool) -> None:
    """A draw is a function of its position: taken here and there, it is the same."""
    space = (samples.ROWS, samples.COLS) if matrix else (N,)
    few = (samples.ROWS, K) if matrix else (K,)
    draws, out = array("draws", *space), array("out", *few)
    draw, pick = Body(), Body()
    uniform = draw.add("uniform", stream=0, shared=False, bits=32)
    axis = pick.add("position", dtype=U32, axis="column" if matrix else "flat")
    odd = pick.add("add", pick.add("mul", axis, pick.const(3, U32), dtype=U32), pick.const(1, U32), dtype=U32)
    kind = "matrix" if matrix else "flat"
    names = ("rows", "cols") if matrix else ("n",)
    program = flat_program(
        "p",
        [
            draw.sweep(space, ir.Write(result=draws, value=uniform)),
            pick.sweep(few, ir.Write(result=out, value=pick.at(draws, odd))),
        ],
        [port("field", "out", out)], (ir.Field(name="out", dtype=out.dtype, shape=few),), None,
        sizes=(("k", samples.K_OF_COLS if matrix else K_OF_N),),
        view=ir.GradientView(kind=kind, shape=space, names=names),
    )  # fmt: skip
    after = fuse_sweeps(program)
    assert [o.shape for o in after.functions[0].operations] == [few]
    assert_same_meaning(program, after, 97)


def test_a_value_of_each_row_is_computed_in_the_rows() -> None:
    """scale[row] = largest[row] / 2 vanishes into the sweep over the matrix that uses it."""
    g = array("g", samples.ROWS, samples.COLS)
    largest, scale = array("largest", samples.ROWS), array("scale", samples.ROWS)
    out = array("out", samples.ROWS, samples.COLS)
    operations = [
        folded(largest, "max", g, per_row=True),
        mapped(scale, "mul", largest, 0.5),
        mapped(out, "mul", g, scale),
    ]
    view = ir.GradientView(kind="matrix", shape=g.shape, names=("rows", "cols"))
    fields = (ir.Field(name="out", dtype=out.dtype, shape=out.shape),)
    program = flat_program("p", operations, [port("field", "out", out)], fields, None, view=view)
    after = fuse_sweeps(program)
    assert shape_of(after.functions[0]) == [("rows,cols", ["Fold"]), ("rows,cols", ["Write"])]
    assert_same_meaning(program, after, 97)
