"""Hypothesis strategies: gradients with everything awkward in them, and well-typed programs, grown in `random_ir`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

from compll.codegen import ir
from compll.codegen.philox import KeyWords
from compll.dtypes import F32, F64, U32
from compll.sizes import Num, Size, Var, apply
from tests.random_ir.growing import Growing
from tests.random_ir.operations import loop, random_sweep, whole_arrays

N, ROWS, COLS = Var("n"), Var("rows"), Var("cols")
LENGTHS = (1, 2, 3, 17, 31, 32, 33, 63, 64, 65, 130, 1023, 1025, 4095, 4096, 4097, 9001)
MATRICES = ((1, 1), (1, 17), (17, 1), (3, 5), (5, 64), (7, 65), (2, 4097), (70, 33))
AWKWARD = (0.0, -0.0, 1.0, -1.0, 1.0, 0.5, 1e-40, -1e-45, 1e30, -1e30, np.inf, -np.inf, np.nan, 3.4e38)

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
    growing = Growing(draw)
    gradient, state = (ir.Value(name=n, dtype=F32, shape=shape) for n in ("g", "s"))
    growing.values += [gradient, state]
    operations: list[ir.Operation] = [random_sweep(growing, shape, None) for _ in range(draw(st.integers(1, 4)))]
    operations += whole_arrays(growing)
    for value in [v for v in growing.values if v.count is not None][:1]:
        operations.append(random_sweep(growing, value.shape, value.count))
    if draw(st.booleans()):
        operations.append(loop(growing, state))
    new_state = next((v for v in reversed(growing.values) if v.shape == shape and v.dtype == F32), state)
    return _program(growing, tuple(operations), gradient, state, new_state)


def _program(
    growing: Growing, operations: tuple[ir.Operation, ...], gradient: ir.Value, state: ir.Value, new_state: ir.Value
) -> ir.Program:
    made = [v for v in growing.values if v not in (gradient, state)]
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
