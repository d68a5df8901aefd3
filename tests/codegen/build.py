"""Building small programs as IR, and comparing what programs mean."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from compll.codegen import ir
from compll.codegen.convert import storage
from compll.codegen.derive import derive
from compll.codegen.interpret import run, size_environment
from compll.codegen.philox import KeyWords
from compll.dtypes import F32, U32, DType
from compll.sizes import Num, Size, Var, apply, extent

N, K, ROWS, COLS = Var("n"), Var("k"), Var("rows"), Var("cols")
K_OF_N = apply("max", Num(1), apply("floor", apply("div", N, Num(8))))
K_OF_COLS = apply("max", Num(1), apply("floor", apply("div", COLS, Num(8))))


@dataclass
class Body:
    """A scalar body by method calls; returns statement names."""

    statements: list[ir.Statement] = field(default_factory=list)

    def add(self, opcode: str, *args: str, dtype: DType = F32, source: ir.Value | None = None, **attributes) -> str:
        name = f"s{len(self.statements)}"
        pairs = tuple(sorted(attributes.items()))
        self.statements.append(
            ir.Statement(name=name, dtype=dtype, opcode=opcode, args=args, source=source, attributes=pairs)
        )
        return name

    def load(self, value: ir.Value) -> str:
        return self.add("load", dtype=value.dtype, source=value)

    def at(self, value: ir.Value, index: str) -> str:
        return self.add("load_at", index, dtype=value.dtype, source=value)

    def const(self, value: ir.Scalar, dtype: DType = F32) -> str:
        return self.add("const", dtype=dtype, value=value)

    def sweep(self, shape: tuple[Size, ...], *sinks: ir.Sink, count: str | None = None) -> ir.Sweep:
        return ir.Sweep(shape=shape, count=count, body=tuple(self.statements), sinks=sinks)


def array(name: str, *shape: Size, dtype: DType = F32, count: str | None = None) -> ir.Value:
    return ir.Value(name=name, dtype=dtype, shape=shape, count=count)


def mapped(result: ir.Value, opcode: str, *operands: ir.Value | float) -> ir.Sweep:
    """result = opcode(operands) element by element; the operands are arrays, scalars or numbers."""
    body = Body()
    args = [body.load(o) if isinstance(o, ir.Value) else body.const(o) for o in operands]
    value = body.add(opcode, *args, dtype=result.dtype)
    return body.sweep(result.shape, ir.Write(result=result, value=value), count=result.count)


def folded(result: ir.Value, kind: ir.CombineKind, source: ir.Value, *, per_row: bool = False) -> ir.Sweep:
    body = Body()
    value = body.load(source)
    sink = ir.Fold(results=(result,), combine=ir.Combine(kind=kind), value=value, per_row=per_row)
    return body.sweep(source.shape, sink, count=source.count)


def port(role: ir.Role, name: str, value: ir.Value) -> ir.Port:
    return ir.Port(role=role, name=name, value=value)


def flat_program(
    name: str, operations: list[ir.Operation], outputs: list[ir.Port], fields: tuple[ir.Field, ...],
    decode: ir.Function | None, *, states: tuple[str, ...] = (), sizes: tuple[tuple[str, Size], ...] = (("k", K_OF_N),),
    view: ir.GradientView | None = None,
) -> ir.Program:  # fmt: skip
    """A program over g: f32[n] (or another view), with its derived functions if it decodes."""
    view = view or ir.GradientView(kind="flat", shape=(N,), names=("n",))
    gradient = array("g", *view.shape)
    inputs = [port("gradient", "gradient", gradient), *(port("state", s, array(s, N)) for s in states)]
    encode = ir.Function(name="encode", inputs=tuple(inputs), operations=tuple(operations), outputs=tuple(outputs))
    functions = (encode,) if decode is None else (encode, decode)
    specs = tuple(ir.StateSpec(name=s, dtype=F32, shape=(N,)) for s in states)
    program = ir.Program(
        name=name, gradient=view, parameters=(), sizes=sizes, states=specs, fields=fields, traits=(),
        feedback=True, functions=functions,
    )  # fmt: skip
    return program if decode is None else derive(program)


def scatter_decode(
    shape: tuple[Size, ...], k_shape: tuple[Size, ...], index: DType, count: bool = False
) -> ir.Function:  # fmt: skip
    bound = "index_count" if count else None
    p_index, p_value = array("p_index", *k_shape, dtype=index, count=bound), array("p_value", *k_shape, count=bound)
    out = array("out", *shape)
    body = Body()
    at = body.load(p_index)
    at = at if index == U32 else body.add("cast", at, dtype=U32)
    put = ir.Put(result=out, base=None, index=at, value=body.load(p_value))
    inputs = [port("count", "index", array("index_count", dtype=U32))] if count else []
    inputs += [port("field", "index", p_index), port("field", "value", p_value)]
    sweep = body.sweep(k_shape, put, count=bound)
    return ir.Function(name="decode", inputs=tuple(inputs), operations=(sweep,), outputs=(port("out", "out", out),))


KEY = KeyWords(seed=7, owner=1, step=3, gradient_id=2)


def environment_of(program: ir.Program, numel: int, cols: int = 16) -> dict[str, float]:
    rows = max(1, numel // cols)
    numel = rows * cols if program.gradient.kind == "matrix" else numel
    return size_environment(program, {"numel": numel, "n": numel, "rows": rows, "cols": cols})


def random_inputs(function: ir.Function, environment: dict[str, float], seed: int = 0) -> dict:
    """Arrays for every input port: normal floats with a few zeros and repeats, small integers."""
    rng = np.random.default_rng(seed)
    inputs = {}
    for entry in function.inputs:
        shape = tuple(extent(s, environment) for s in entry.value.shape)
        held = storage(entry.value.dtype)
        if held.kind == "f":
            drawn = rng.standard_normal(shape).round(2)
            inputs[entry.role, entry.name] = np.asarray(drawn, held)
        else:
            high = min(1 << entry.value.dtype.bits, 40)
            inputs[entry.role, entry.name] = rng.integers(0, high, shape).astype(held)
        if entry.role == "count":
            inputs[entry.role, entry.name] = np.asarray(rng.integers(0, environment.get("k", 1) + 1), np.uint32)
    return inputs


def assert_same_meaning(before: ir.Program, after: ir.Program, numel: int, seed: int = 0) -> None:
    """Every function of both programs gives the same bits."""
    for function in before.functions:
        environment = environment_of(before, numel)
        inputs = random_inputs(function, environment, seed)
        parameters = {p.name: environment[p.name] for p in before.parameters}
        expected = run(function, inputs, environment, parameters, KEY)
        found = run(after.function(function.name), inputs, environment, parameters, KEY)
        assert expected.keys() == found.keys()
        for name, wanted in expected.items():
            assert wanted.dtype == found[name].dtype, (function.name, name)
            assert wanted.tobytes() == found[name].tobytes(), (function.name, name)
