"""Hypothesis strategies: gradients with everything awkward in them, and well-typed programs built as IR."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import strategies as st

from compll.codegen import ir
from compll.codegen.philox import KeyWords
from compll.dtypes import BF16, BOOL, F16, F32, F64, I32, I64, U32, DType, uint
from compll.sizes import Num, Size, Var, apply

N, ROWS, COLS = Var("n"), Var("rows"), Var("cols")
LENGTHS = (1, 2, 3, 17, 31, 32, 33, 63, 64, 65, 130, 1023, 1025, 4095, 4096, 4097, 9001)
MATRICES = ((1, 1), (1, 17), (17, 1), (3, 5), (5, 64), (7, 65), (2, 4097), (70, 33))
AWKWARD = (0.0, -0.0, 1.0, -1.0, 1.0, 0.5, 1e-40, -1e-45, 1e30, -1e30, np.inf, -np.inf, np.nan, 3.4e38)
FUNCTIONS = ("neg", "abs", "sign", "floor", "ceil", "round", "trunc", "sqrt", "exp", "log", "exp2", "log2")
INTEGERS = (I32, U32, I64)
NUMBERS = (F32, F32, *INTEGERS)
FOLDS = (*((dtype, kind) for dtype in NUMBERS for kind in ("add", "min", "max")), (BOOL, "and"), (BOOL, "or"))

keys = st.builds(
    KeyWords, seed=st.integers(0, 2**32 - 1), owner=st.integers(0, 2**32 - 1), step=st.integers(0, 2**32 - 1),
    gradient_id=st.integers(0, 1000),
)  # fmt: skip


@st.composite
def gradients(draw: st.DrawFn, n: int, finite: bool = False) -> np.ndarray:
    """f32 [n]: normal numbers, ties, constants, zeros, mixed with awkward values."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    kind = draw(st.sampled_from(("normal", "ties", "constant", "zeros", "awkward")))
    x = rng.standard_normal(n).astype(np.float32)
    if kind == "ties":
        x = np.round(x * 2) / np.float32(2)
    elif kind in ("constant", "zeros"):
        x = np.full(n, x[0] if n and kind == "constant" else 0.0, np.float32)
    elif kind == "awkward":
        x = np.where(rng.random(n) < 0.5, rng.choice(np.array(AWKWARD, np.float32), n), x)
    return np.nan_to_num(x, nan=0.0, posinf=1.0, neginf=-1.0) if finite else x


@dataclass(frozen=True)
class Case:
    """A program with everything that running its `encode` takes."""

    program: ir.Program
    environment: dict[str, float]
    parameters: dict[str, ir.Scalar]
    gradient: np.ndarray
    states: dict[str, np.ndarray]
    key: KeyWords

    def inputs(self) -> dict[Any, np.ndarray]:
        return {("gradient", "g"): self.gradient, **{("state", n): s for n, s in self.states.items()}}


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """A random program over a vector or matrix, and inputs for it."""
    matrix = draw(st.booleans())
    shape = draw(st.sampled_from(MATRICES)) if matrix else (draw(st.sampled_from(LENGTHS)),)
    names = ("rows", "cols") if matrix else ("n",)
    program = draw(programs(matrix))
    environment: dict[str, float] = {"numel": int(np.prod(shape)), **dict(zip(names, shape, strict=True)), "gain": 1.5}
    elements = draw(gradients(int(np.prod(shape)))).reshape(shape)
    states = {s.name: draw(gradients(elements.size)).reshape(shape) for s in program.states}
    return Case(program, environment, {"gain": 1.5}, elements, states, draw(keys))


@st.composite
def programs(draw: st.DrawFn, matrix: bool) -> ir.Program:
    """`encode` alone: up to six sweeps (one of them maybe in a loop), a sort or transpose between them; every result a
    field, a state updated."""
    shape: tuple[Size, ...] = (ROWS, COLS) if matrix else (N,)
    build = _Build(draw, shape)
    gradient, state = (ir.Value(name=n, dtype=F32, shape=shape) for n in ("g", "s"))
    build.values += [gradient, state]
    operations: list[ir.Operation] = [build.sweep(shape, None) for _ in range(draw(st.integers(1, 4)))]
    operations += build.whole_arrays()
    for value in [v for v in build.values if v.count is not None][:1]:
        operations.append(build.sweep(value.shape, value.count))
    if draw(st.booleans()):
        operations.append(build.loop(state))
    new_state = next((v for v in reversed(build.values) if v.shape == shape and v.dtype == F32), state)
    return _program(build, tuple(operations), gradient, state, new_state)


def _program(
    build: _Build, operations: tuple[ir.Operation, ...], gradient: ir.Value, state: ir.Value, new_state: ir.Value
) -> ir.Program:
    made = [v for v in build.values if v not in (gradient, state)]
    counts = {v.count: v.name for v in reversed(made) if v.count is not None}
    fields = tuple(
        ir.Field(name=v.name, dtype=v.dtype, shape=v.shape, count_of=counts.get(v.count) if v.count else None)
        for v in made
        if v.dtype != F64
    )
    outputs = [ir.Port(role="field", name=v.name, value=v) for v in made if v.dtype != F64]
    outputs += [ir.Port(role="count", name=f, value=ir.Value(name=c, dtype=U32)) for c, f in counts.items()]
    outputs.append(ir.Port(role="state", name="s", value=new_state))
    inputs = (ir.Port(role="gradient", name="g", value=gradient), ir.Port(role="state", name="s", value=state))
    function = ir.Function(name="encode", inputs=inputs, operations=operations, outputs=tuple(outputs))
    names = ("rows", "cols") if len(gradient.shape) == 2 else ("n",)
    kind: Any = "matrix" if len(gradient.shape) == 2 else "flat"
    return ir.Program(
        name="random", gradient=ir.GradientView(kind=kind, shape=gradient.shape, names=names),
        parameters=(ir.Parameter(name="gain", dtype=F32),),
        sizes=(("k", apply("max", Num(1), apply("floor", apply("div", gradient.shape[-1], Num(8))))),),
        states=(ir.StateSpec(name="s", dtype=F32, shape=gradient.shape),), fields=fields, traits=(), feedback=False,
        functions=(function,),
    )  # fmt: skip


@dataclass
class _Build:
    """Values so far, and fresh names."""

    draw: st.DrawFn
    shape: tuple[Size, ...]
    values: list[ir.Value] = field(default_factory=list)
    streams: int = 0
    number: int = 0
    in_loop: bool = False

    def value(self, dtype: DType, shape: tuple[Size, ...] = (), count: str | None = None) -> ir.Value:
        self.number += 1
        return ir.Value(name=f"v{self.number}", dtype=dtype, shape=shape, count=count)

    def choose(self, options: Any) -> Any:
        return self.draw(st.sampled_from(list(options)))

    def sweep(self, shape: tuple[Size, ...], count: str | None) -> ir.Sweep:
        body = _BodyBuild(self, shape, count)
        for _ in range(self.draw(st.integers(1, 6))):
            body.step()
        sinks = tuple(_sink(body) for _ in range(self.draw(st.integers(1, 3))))
        results = [v for s in sinks for v in ir.sink_results(s)]
        hidden = {s.count.name for s in sinks if isinstance(s, ir.Keep)}
        self.values += [v for v in results if v.name not in hidden]
        return ir.Sweep(shape=shape, count=count, body=tuple(body.statements), sinks=sinks, origin="a line")

    def whole_arrays(self) -> list[ir.Operation]:
        """A sorted or transposed array, and a sweep that may read it; or nothing."""
        sources = [v for v in self.values if v.dtype in NUMBERS and v.shape and not v.count]
        if not sources or self.draw(st.booleans()):
            return []
        source = self.choose(sources)
        turned = len(source.shape) == 2 and bool(self.draw(st.booleans()))
        result = self.value(source.dtype, source.shape[::-1] if turned else source.shape)
        self.values.append(result)
        if turned:
            operation: ir.Operation = ir.Transpose(result=result, source=source, origin="a line")
        else:
            descending = bool(self.draw(st.booleans()))
            operation = ir.Sort(result=result, source=source, descending=descending, origin="a line")
        return [operation, self.sweep(result.shape, None)]

    def loop(self, initial: ir.Value) -> ir.Loop:
        """Up to three times: s = s * 0.5 + something, while the sum is not above a bound."""
        names = ("carried", "going", "halved", "final")
        parameter, going, halved, final = (ir.Value(name=n, dtype=F32, shape=initial.shape) for n in names)
        going = ir.Value(name="going", dtype=BOOL)
        load = ir.Statement(name="x", dtype=F32, opcode="load", source=parameter)
        half = ir.Statement(name="h", dtype=F32, opcode="const", attributes=(("value", 0.5),))
        small = ir.Statement(name="p", dtype=BOOL, opcode="le", args=("x", "h"))
        product = ir.Statement(name="y", dtype=F32, opcode="mul", args=("x", "h"))
        test = ir.Fold(results=(going,), combine=ir.Combine(kind="or"), value="p")
        head = ir.Sweep(shape=initial.shape, body=(load, half, small), sinks=(test,))
        write = ir.Write(result=halved, value="y")
        body = ir.Sweep(shape=initial.shape, body=(load, half, product), sinks=(write,))
        self.values.append(final)
        carried = ir.Carried(initial=initial, parameter=parameter, yielded=halved, result=final)
        return ir.Loop(limit=3, carried=(carried,), head=(head,), condition=going, body=(body,), origin="repeat")


@dataclass
class _BodyBuild:
    """A body that grows by random well-typed statements."""

    build: _Build
    shape: tuple[Size, ...]
    count: str | None
    statements: list[ir.Statement] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.load()

    def add(self, opcode: str, dtype: DType, *args: str, source: ir.Value | None = None, **attributes: Any) -> str:
        name = f"t{len(self.statements)}"
        pairs = tuple(sorted(attributes.items()))
        self.statements.append(
            ir.Statement(name=name, dtype=dtype, opcode=opcode, args=args, source=source, attributes=pairs)
        )
        return name

    def load(self) -> str:
        fitting = [v for v in self.build.values if self._fits(v)]
        if not fitting:
            return self.add("position", U32, axis="flat")
        source = self.build.choose(fitting)
        return self.add("load", source.dtype, source=source)

    def _fits(self, value: ir.Value) -> bool:
        by_row = len(self.shape) == 2 and value.shape == self.shape[:1]
        same = value.shape == self.shape and value.count in (None, self.count)
        return value.shape == () or by_row or same

    def pick(self, dtype: DType) -> str:
        """A statement of this type, made if there is none."""
        found = [s.name for s in self.statements if s.dtype == dtype]
        if found and self.build.draw(st.integers(0, 3)):
            return str(self.build.choose(found))
        if dtype == BOOL:
            return self.add(self.build.choose(("lt", "ge", "ne")), BOOL, self.pick(F32), self.pick(F32))
        constants = {
            F32: (0.0, -1.5, 0.25), U32: (0, 3, 70, 2**31), I32: (0, -3, 2**31 - 1), I64: (0, -3, 2**40, -(2**63)),
        }  # fmt: skip
        return self.add("const", dtype, value=self.build.choose(constants[dtype]))

    def step(self) -> None:
        """One more statement of a random kind."""
        kinds = ("load", "f32", "function", "integer", "unary", "bits", "bool", "select", "cast", "draw", "leaf")
        match self.build.choose(kinds):
            case "load":
                self.load() if self.build.draw(st.booleans()) else self.gather()
            case "f32":
                opcode = self.build.choose(("add", "sub", "mul", "div", "rem", "min", "max", "pow", "fma"))
                self.add(opcode, F32, *(self.pick(F32) for _ in range(3 if opcode == "fma" else 2)))
            case "function":
                self.add(self.build.choose(FUNCTIONS), F32, self.pick(F32))
            case "integer":
                dtype = self.build.choose(INTEGERS)
                opcode = self.build.choose(
                    ("add", "sub", "mul", "div", "rem", "shl", "shr", "bitxor", "bitand", "bitor", "min", "max")
                )
                self.add(opcode, dtype, self.pick(dtype), self.pick(dtype))
            case "unary":
                dtype = self.build.choose(INTEGERS)
                options = ("bitnot", "popcount", "leading_zeros") if dtype == U32 else ("neg", "abs", "sign", "bitnot")
                self.add(self.build.choose(options), dtype, self.pick(dtype))
            case "bits":
                self.bits()
            case "bool":
                negated = self.add("not", BOOL, self.pick(BOOL))
                self.add(self.build.choose(("and", "or")), BOOL, self.pick(BOOL), negated)
            case "select":
                dtype = self.build.choose(NUMBERS)
                self.add("select", dtype, self.pick(BOOL), self.pick(dtype), self.pick(dtype))
            case "cast":
                target = self.build.choose((*NUMBERS, F16, BF16, BOOL, uint(2), uint(7), uint(8)))
                self.add("cast", target, str(self.build.choose([s.name for s in self.statements])))
            case "draw":
                self.random()
            case "leaf":
                self.leaf()

    def bits(self) -> None:
        opcode = self.build.choose(("bits", "from_bits", "is_finite", "is_nan"))
        result = {"bits": U32, "from_bits": F32}.get(opcode, BOOL)
        self.add(opcode, result, self.pick(U32 if opcode == "from_bits" else F32))

    def gather(self) -> None:
        """From a vector; in a matrix also from the own row of another one."""
        rows = self.shape[:1] if len(self.shape) == 2 else None
        sources = [v for v in self.build.values if len(v.shape) == 1 or (len(v.shape) == 2 and v.shape[:1] == rows)]
        if sources:
            source = self.build.choose(sources)
            self.add("load_at", source.dtype, self.pick(U32), source=source)

    def random(self) -> None:
        stream, shared = self.build.streams, bool(self.build.draw(st.booleans()))
        self.build.streams += 1
        match self.build.choose(("uniform", "normal", "choose", "sample_index")):
            case "uniform":
                self.add("uniform", F32, stream=stream, shared=shared, bits=self.build.choose((16, 32)))
            case "normal":
                self.add("normal", F32, stream=stream, shared=shared)
            case opcode:
                self.add(opcode, U32, stream=stream, shared=shared, extent=self.shape[-1])

    def leaf(self) -> None:
        match self.build.choose(("position", "param", "size")):
            case "position":
                self.add("position", U32, axis=self.build.choose(("flat", "row", "column")))
            case "param":
                self.add("param", F32, name="gain")
            case "size":
                self.add("size", self.build.choose(NUMBERS), value=Var("k"))


def _sink(body: _BodyBuild) -> ir.Sink:
    build, shape, count = body.build, body.shape, body.count
    any_scalar = build.choose(body.statements)
    per_row = len(shape) == 2 and bool(build.draw(st.booleans()))
    rows = shape[:1] if per_row else ()
    options = ("write", "fold", "moments", "arg", "scan", "custom", "top", "kth", "put")
    k = Var("k")
    match build.choose(options if len(shape) == 2 or count else (*options, "keep")):
        case "write":
            return ir.Write(result=build.value(any_scalar.dtype, shape, count), value=any_scalar.name)
        case "fold":
            dtype, kind = build.choose(FOLDS)
            result = build.value(dtype, rows)
            return ir.Fold(results=(result,), combine=ir.Combine(kind=kind), value=body.pick(dtype), per_row=per_row)
        case "moments":
            results = (build.value(F64, rows), build.value(F64, rows))
            return ir.Fold(
                results=results, combine=ir.Combine(kind="moments"), value=body.pick(F32), per_row=per_row
            )
        case "arg":
            kind = build.choose(("argmax", "argmin"))
            result, value = build.value(U32, rows), body.pick(build.choose(NUMBERS))
            return ir.Fold(results=(result,), combine=ir.Combine(kind=kind), value=value, per_row=per_row)
        case "scan" | "custom" as which:
            combine = _CUSTOM if which == "custom" else ir.Combine(kind=build.choose(("add", "min", "max")))
            dtype = F32 if which == "custom" else build.choose(NUMBERS)
            return ir.Scan(
                result=build.value(dtype, shape, count), combine=combine, value=body.pick(dtype),
                exclusive=bool(build.draw(st.booleans())), per_row=per_row,
            )  # fmt: skip
        case "keep":
            bounded = build.value(U32)
            index, carried = build.value(U32, (k,), bounded.name), build.value(any_scalar.dtype, (k,), bounded.name)
            return ir.Keep(
                index=index, count=bounded, cut=build.value(U32), carried=((carried, any_scalar.name),),
                predicate=body.pick(BOOL), limit=k,
            )  # fmt: skip
        case "top":
            index, carried = build.value(U32, (*rows, k)), build.value(any_scalar.dtype, (*rows, k))
            key = body.pick(build.choose(NUMBERS))
            return ir.Top(index=index, carried=((carried, any_scalar.name),), key=key, k=k, per_row=per_row)
        case "kth":
            dtype = build.choose(NUMBERS)
            return ir.Kth(result=build.value(dtype, rows), key=body.pick(dtype), k=k, per_row=per_row)
        case _:
            position, dtype = body.add("position", U32, axis="column"), build.choose(NUMBERS)
            result = build.value(dtype, (*shape[:-1], k))
            return ir.Put(result=result, base=None, index=position, value=body.pick(dtype))


_CUSTOM = ir.Combine(
    kind="custom", identity=0.0, left="a", right="b", result="c",
    body=(
        ir.Statement(name="m", dtype=F32, opcode="max", args=("a", "b")),
        ir.Statement(name="c", dtype=F32, opcode="abs", args=("m",)),
    ),
)  # fmt: skip
