"""Plans: where values live, what is copied, what kernels there are; and that running them gives the right outputs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from compll.codegen import ir
from compll.codegen.interpret import run
from compll.codegen.kernels import partition, size_name
from compll.codegen.passes import optimise
from compll.codegen.plan import EncodeAscending, Kernel, KernelPlan, Repeat, record_fields
from compll.diagnostics import InternalError
from compll.dtypes import BOOL, F32, U32, uint
from compll.sizes import Apply, Num, Var, apply, evaluate
from tests.codegen import samples
from tests.codegen.build import (
    KEY,
    Body,
    K,
    N,
    array,
    environment_of,
    flat_program,
    folded,
    mapped,
    port,
    random_inputs,
)
from tests.codegen.plan_runner import PlanRunner
from tests.programs import ALGORITHMS, Interpreted


def planned(program: ir.Program, function: str = "encode") -> KernelPlan:
    return partition(program, program.function(function), "f32")


def patterns(plan: KernelPlan) -> list[str]:
    return [kernel.pattern for kernel in plan.kernels]


def bound(plan: KernelPlan) -> dict[str, str]:
    return dict(plan.bindings)


def assert_runs_right(program: ir.Program, plan: KernelPlan, numel: int = 97) -> None:
    """The plan on simulated memory against the interpreter on values."""
    function = program.function(plan.function)
    environment = environment_of(program, numel)
    inputs = random_inputs(function, environment, numel)
    expected = run(function, inputs, environment, {}, KEY)
    found = PlanRunner(plan, environment, {}, KEY).run(function, inputs)
    for name, wanted in expected.items():
        assert wanted.tobytes() == found[name].tobytes(), name


@pytest.mark.parametrize("make", samples.SAMPLES, ids=lambda make: make.__name__)
@pytest.mark.parametrize("optimised", [False, True])
def test_plans_of_samples_run_right(make, optimised: bool) -> None:
    """Unoptimised programs are planned as well: more kernels, the same outputs."""
    program = optimise(make()) if optimised else make()
    for function in program.functions:
        assert_runs_right(program, planned(program, function.name))


@pytest.mark.parametrize("path", sorted(ALGORITHMS.glob("*.cll")), ids=lambda path: path.stem)
@pytest.mark.parametrize("shape", [(1,), (6, 130)])
def test_plans_of_the_algorithms_run_right(path, shape: tuple[int, ...]) -> None:
    compiled = Interpreted(path.read_text(), shape)
    program, environment = optimise(compiled.program), compiled.environment
    numel = int(environment["numel"])
    for function in compiled.program.functions:
        inputs = random_inputs(function, environment, 3)
        for (role, _), given in inputs.items():
            if program.gradient.kind == "blocks" and role in ("gradient", "residual", "out"):
                given.reshape(-1)[numel:] = 0
        expected = run(function, inputs, environment, compiled.parameters, KEY)
        plan = planned(program, function.name)
        found = PlanRunner(plan, environment, compiled.parameters, KEY).run(program.function(function.name), inputs)
        cuts = [np.uint32(value) for (role, _), value in expected.items() if role == "cut"]
        for (role, name), wanted in expected.items():
            wanted = np.asarray(sum(cuts), np.uint32) if role == "cut" else wanted
            used = numel if role in ("residual", "out") else wanted.size
            same = wanted.reshape(-1)[:used].tobytes() == found[role, name].reshape(-1)[:used].tobytes()
            assert same, (function.name, role, name)


def test_selection_writes_into_residual_and_payload() -> None:
    plan = planned(optimise(samples.top_k()), "encode_with_feedback")
    assert patterns(plan) == ["map+reduce+select", "scatter"]
    assert not [b for b in plan.buffers if b.role == "temporary"]
    home = bound(plan)
    assert home["g"] == home["new_residual"] == home["residual"] == "residual"
    assert (home["top_index"], home["top_value"], home["finite"]) == ("payload_index", "payload_value", "finite")


def test_ascending_indices_pass_through_a_temporary() -> None:
    plan = planned(optimise(samples.top_k(ascending=True)), "encode")
    assert patterns(plan) == ["reduce+select", "ascending"]
    assert isinstance(plan.kernels[-1].step, EncodeAscending)
    assert plan.buffer_of(array("top_index", dtype=U32)).role == "temporary"
    assert patterns(planned(optimise(samples.top_k(ascending=True)), "decode")) == ["ascending", "scatter"]


def test_counts_travel_in_the_header() -> None:
    program = optimise(samples.momentum_filter())
    assert patterns(planned(program)) == ["select", "map+reduce+filter", "scatter", "count"]
    assert patterns(planned(program, "decode")) == ["count", "scatter"]


def test_states_are_updated_in_place() -> None:
    plan = planned(optimise(samples.momentum_filter()))
    home = bound(plan)
    assert {home[f"velocity{s}"] for s in ("", "_2", "_3")} == {"state_velocity"}
    assert sorted(b.name for b in plan.buffers if b.role == "temporary") == ["found", "threshold"]


def test_carried_values_share_a_buffer() -> None:
    plan = planned(optimise(samples.search()))
    home = bound(plan)
    assert home["low"] == home["next_low"] == home["last_low"] != home["high"] == home["next_high"]
    repeat = next(k.step for k in plan.kernels if isinstance(k.step, Repeat))
    assert [k.pattern for k in repeat.head] == ["scalar"]
    assert [k.pattern for k in repeat.body] == ["reduce", "scalar"]


def state_program(*operations: ir.Operation, fields: tuple[ir.Value, ...], new: ir.Value) -> ir.Program:
    declared = tuple(ir.Field(name=v.name, dtype=v.dtype, shape=v.shape) for v in fields)
    outputs = [port("state", "s", new), *(port("field", v.name, v) for v in fields)]
    return flat_program("p", list(operations), outputs, declared, None, states=("s",))


def copies(plan: KernelPlan) -> list[Kernel]:
    return [k for k in plan.kernels if k.name.startswith("old_")]


def test_an_old_state_that_is_read_too_late_is_copied_first() -> None:
    """Planned as written: the state is replaced, then its old value is reduced."""
    new, low, old = array("new", N), array("low"), array("s", N)
    program = state_program(mapped(new, "mul", old, 0.5), folded(low, "min", old), fields=(low,), new=new)
    plan = planned(program)
    assert [k.name for k in plan.kernels] == ["old_s", "new", "low"]
    assert_runs_right(program, plan)
    assert not copies(planned(optimise(program)))


def test_a_state_gathered_from_while_it_is_written_is_copied_first() -> None:
    """new[i] = old[n - 1 - i]: at another position than its own."""
    new, old = array("new", N), array("s", N)
    body = Body()
    position, extent = body.add("position", dtype=U32, axis="flat"), body.add("size", dtype=U32, value=N)
    last = body.add("sub", extent, body.const(1, U32), dtype=U32)
    value = body.at(old, body.add("sub", last, position, dtype=U32))
    program = state_program(body.sweep((N,), ir.Write(result=new, value=value)), fields=(), new=new)
    for each in (program, optimise(program)):
        plan = planned(each)
        assert len(copies(plan)) == 1
        assert_runs_right(each, plan)


def test_a_state_read_at_its_own_position_is_not_copied() -> None:
    new, old = array("new", N), array("s", N)
    program = state_program(mapped(new, "add", old, array("g", N)), fields=(), new=new)
    assert not copies(planned(program))


def test_a_scatter_into_an_input_that_stays_works_on_a_copy() -> None:
    """The gradient is nobody's to write."""
    result, g = array("result", N), array("g", N)
    body = Body()
    at = body.add("position", dtype=U32, axis="flat")
    put = ir.Put(result=result, base=g, index=at, value=body.const(7.0))
    program = flat_program(
        "p", [body.sweep((K,), put)], [port("field", "result", result)],
        (ir.Field(name="result", dtype=F32, shape=(N,)),), None,
    )  # fmt: skip
    plan = planned(program)
    assert patterns(plan) == ["map", "scatter"]
    assert bound(plan)["g"] == "gradient" and bound(plan)["result"] == "payload_result"
    assert_runs_right(program, plan)


def test_a_value_that_goes_out_twice_is_copied_once() -> None:
    new = array("new", N)
    program = state_program(mapped(new, "neg", array("s", N)), fields=(), new=new)
    function = program.function("encode")
    function = replace(function, outputs=(*function.outputs, port("field", "again", new)))
    program = replace(program, fields=(ir.Field(name="again", dtype=F32, shape=(N,)),), functions=(function,))
    plan = planned(program)
    assert patterns(plan) == ["map", "map"]
    assert_runs_right(program, plan)


def test_packed_codes_of_a_scan_are_packed_by_a_sweep_of_their_own() -> None:
    code, scanned = array("code", N, dtype=uint(2)), array("scanned", N, dtype=uint(2))
    body = Body()
    value = body.add("cast", body.load(array("g", N)), dtype=uint(2))
    operations = [
        body.sweep((N,), ir.Write(result=code, value=value)),
        ir.Sort(result=scanned, source=code),
    ]
    fields = (ir.Field(name="scanned", dtype=uint(2), shape=(N,)),)
    program = flat_program("p", operations, [port("field", "scanned", scanned)], fields, None)
    plan = planned(program)
    assert patterns(plan) == ["map", "sort", "map"]
    assert plan.buffer_of(scanned).role == "temporary"


def test_two_cuts_are_reported_as_one() -> None:
    operations: list[ir.Operation] = []
    cuts = [array(f"cut_{i}", dtype=U32) for i in range(2)]
    for i, cut in enumerate(cuts):
        body = Body()
        chosen = body.add("gt", body.load(array("g", N)), body.const(float(i)), dtype=BOOL)
        count = array(f"count_{i}", dtype=U32)
        index = array(f"index_{i}", K, dtype=U32, count=count.name)
        keep = ir.Keep(index=index, count=count, cut=cut, carried=(), predicate=chosen, limit=K)
        operations.append(body.sweep((N,), keep))
    program = flat_program("p", operations, [port("cut", c.name, c) for c in cuts], (), None)
    plan = planned(optimise(program))
    assert patterns(plan) == ["filter", "scalar"]
    inputs = random_inputs(program.functions[0], environment_of(program, 97))
    runner = PlanRunner(plan, environment_of(program, 97), {}, KEY)
    found = runner.run(program.functions[0], inputs)
    expected = run(program.functions[0], inputs, environment_of(program, 97), {}, KEY)
    assert found["cut", "cut_0"] == sum(expected["cut", c.name] for c in cuts)


def test_half_gradients_have_half_buffers() -> None:
    program = optimise(samples.top_k())
    plan = partition(program, program.function("encode_with_feedback"), "bf16")
    widths = {b.name: b.dtype.name for b in plan.buffers}
    assert (widths["gradient"], widths["residual"]) == ("bf16", "f32")


def test_sizes_can_be_evaluated_in_order() -> None:
    """From the dimensions alone, without the program's named sizes."""
    program = optimise(samples.top_k(ascending=True))
    for function in program.functions:
        plan = planned(program, function.name)
        known = {"numel": 1000.0, "n": 1000.0}
        for name, size in plan.sizes:
            known[name] = evaluate(size, known)
        assert known["k"] == 125 and known["value_offset"] % 4 == 0
        assert {"index_low_bits", "index_low_bytes"} <= known.keys() or function.name == "decode_nothing"


def test_size_names() -> None:
    plan = planned(optimise(samples.top_k()))
    assert size_name(plan, Num(64)) == "64"
    assert size_name(plan, Var("numel")) == "numel"
    assert size_name(plan, K) == "k"
    assert size_name(plan, plan.layout.section("value").offset) == "value_offset"
    with pytest.raises(InternalError, match="no field of the record"):
        size_name(plan, apply("mul", Num(17), N))


def test_a_size_that_is_not_whole_is_a_number_of_the_record() -> None:
    out = array("out", N)
    body = Body()
    third = Apply("div", (N, Num(3)))
    value = body.add("mul", body.load(array("g", N)), body.add("size", value=third))
    program = flat_program(
        "p", [body.sweep((N,), ir.Write(result=out, value=value))], [port("field", "out", out)],
        (ir.Field(name="out", dtype=F32, shape=(N,)),), None,
    )  # fmt: skip
    plan = planned(program)
    assert [size for _, size in plan.numbers] == [third]
    assert third not in dict(plan.sizes).values()
    assert ("f64", "size") in {(f.ctype, f.kind) for f in record_fields(plan)}


@pytest.mark.parametrize("make", samples.SAMPLES, ids=lambda make: make.__name__)
def test_names_are_unique(make) -> None:
    program = optimise(make())
    for function in program.functions:
        plan = planned(program, function.name)
        fields = [field.name for field in record_fields(plan)]
        kernels = [k.name for k in plan.kernels]
        assert len(fields) == len(set(fields)) and len(kernels) == len(set(kernels))


def test_a_let_called_step_does_not_collide_with_the_key() -> None:
    """`step` is a word of the record; a scalar of that name gets a temporary of another."""
    step, out = array("step"), array("out", N)
    operations = [folded(step, "max", array("g", N)), mapped(out, "div", array("g", N), step)]
    fields = (ir.Field(name="out", dtype=F32, shape=(N,)),)
    plan = planned(optimise(flat_program("p", operations, [port("field", "out", out)], fields, None)))
    assert plan.buffer_of(step).name == "step_"


def test_packed_codes_beside_row_sums_are_packed_by_a_sweep_of_their_own() -> None:
    """A row-wise sweep stores whole bytes only."""
    space = (samples.ROWS, samples.COLS)
    g, code, sums = array("g", *space), array("code", *space, dtype=uint(3)), array("sums", samples.ROWS)
    body = Body()
    x = body.load(g)
    fold = ir.Fold(results=(sums,), combine=ir.Combine(kind="add"), value=x, per_row=True)
    write = ir.Write(result=code, value=body.add("cast", x, dtype=uint(3)))
    fields = (
        ir.Field(name="sums", dtype=F32, shape=sums.shape),
        ir.Field(name="code", dtype=uint(3), shape=code.shape),
    )
    outputs = [port("field", "sums", sums), port("field", "code", code)]
    view = ir.GradientView(kind="matrix", shape=space, names=("rows", "cols"))
    program = flat_program("p", [body.sweep(space, fold, write)], outputs, fields, None, view=view)
    plan = planned(program)
    assert patterns(plan) == ["map+reduce", "map"]
    assert_runs_right(program, plan)
    assert patterns(planned(optimise(program))) == ["reduce", "map"]


def test_a_parameter_called_step_does_not_collide_with_the_key() -> None:
    """It is read from a field of another name, with the same value."""
    text = """
    compressor shrink {
        param step: f32 = 0.3 in (0, 1];
        payload { value: f32[n]; }
        encode(g: f32[n]) { return { value: map(|x| x * step, g) }; }
        decode(p) -> f32[n] { return map(|x| x, p.value); }
    }
    """
    compiled = Interpreted(text, (50,))
    plan = planned(optimise(compiled.program))
    fields = [field.name for field in record_fields(plan)]
    assert len(fields) == len(set(fields)) and not plan.parameters
    function = compiled.program.function("encode")
    inputs = random_inputs(function, compiled.environment)
    expected = run(function, inputs, compiled.environment, compiled.parameters, KEY)
    found = PlanRunner(plan, compiled.environment, {}, KEY).run(function, inputs)
    assert expected["field", "value"].tobytes() == found["field", "value"].tobytes()
