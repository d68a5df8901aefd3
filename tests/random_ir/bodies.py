"""Scalar bodies of random sweeps."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from compll.codegen import ir
from compll.dtypes import BF16, BOOL, F16, F32, I32, I64, U32, DType, uint
from compll.sizes import Size, Var
from tests.random_ir.growing import INTEGERS, NUMBERS, Growing

FUNCTIONS = ("neg", "abs", "sign", "floor", "ceil", "round", "trunc", "sqrt", "exp", "log", "exp2", "log2")


@dataclass
class Body:
    """A body that grows by random well-typed statements."""

    growing: Growing
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
        fitting = [v for v in self.growing.values if self._fits(v)]
        if not fitting:
            return self.add("position", U32, axis="flat")
        source = self.growing.choose(fitting)
        return self.add("load", source.dtype, source=source)

    def _fits(self, value: ir.Value) -> bool:
        by_row = len(self.shape) == 2 and value.shape == self.shape[:1]
        same = value.shape == self.shape and value.count in (None, self.count)
        return value.shape == () or by_row or same

    def pick(self, dtype: DType) -> str:
        """A statement of this type, made if there is none."""
        found = [s.name for s in self.statements if s.dtype == dtype]
        if found and self.growing.draw(st.integers(0, 3)):
            return str(self.growing.choose(found))
        if dtype == BOOL:
            return self.add(self.growing.choose(("lt", "ge", "ne")), BOOL, self.pick(F32), self.pick(F32))
        constants = {
            F32: (0.0, -1.5, 0.25), U32: (0, 3, 70, 2**31), I32: (0, -3, 2**31 - 1), I64: (0, -3, 2**40, -(2**63)),
        }  # fmt: skip
        return self.add("const", dtype, value=self.growing.choose(constants[dtype]))

    def step(self) -> None:
        """One more statement of a random kind."""
        kinds = ("load", "f32", "function", "integer", "unary", "bits", "bool", "select", "cast", "draw", "leaf")
        match self.growing.choose(kinds):
            case "load":
                self.load() if self.growing.draw(st.booleans()) else self.gather()
            case "f32":
                opcode = self.growing.choose(("add", "sub", "mul", "div", "rem", "min", "max", "pow", "fma"))
                self.add(opcode, F32, *(self.pick(F32) for _ in range(3 if opcode == "fma" else 2)))
            case "function":
                self.add(self.growing.choose(FUNCTIONS), F32, self.pick(F32))
            case "integer":
                dtype = self.growing.choose(INTEGERS)
                opcode = self.growing.choose(
                    ("add", "sub", "mul", "div", "rem", "shl", "shr", "bitxor", "bitand", "bitor", "min", "max")
                )
                self.add(opcode, dtype, self.pick(dtype), self.pick(dtype))
            case "unary":
                dtype = self.growing.choose(INTEGERS)
                options = ("bitnot", "popcount", "leading_zeros") if dtype == U32 else ("neg", "abs", "sign", "bitnot")
                self.add(self.growing.choose(options), dtype, self.pick(dtype))
            case "bits":
                self.bits()
            case "bool":
                negated = self.add("not", BOOL, self.pick(BOOL))
                self.add(self.growing.choose(("and", "or")), BOOL, self.pick(BOOL), negated)
            case "select":
                dtype = self.growing.choose(NUMBERS)
                self.add("select", dtype, self.pick(BOOL), self.pick(dtype), self.pick(dtype))
            case "cast":
                target = self.growing.choose((*NUMBERS, F16, BF16, BOOL, uint(2), uint(7), uint(8)))
                self.add("cast", target, str(self.growing.choose([s.name for s in self.statements])))
            case "draw":
                self.random()
            case "leaf":
                self.leaf()

    def bits(self) -> None:
        opcode = self.growing.choose(("bits", "from_bits", "is_finite", "is_nan"))
        result = {"bits": U32, "from_bits": F32}.get(opcode, BOOL)
        self.add(opcode, result, self.pick(U32 if opcode == "from_bits" else F32))

    def gather(self) -> None:
        """From a vector; in a matrix also from the own row of another one."""
        rows = self.shape[:1] if len(self.shape) == 2 else None
        sources = [v for v in self.growing.values if len(v.shape) == 1 or (len(v.shape) == 2 and v.shape[:1] == rows)]
        if sources:
            source = self.growing.choose(sources)
            self.add("load_at", source.dtype, self.pick(U32), source=source)

    def random(self) -> None:
        stream, shared = self.growing.streams, bool(self.growing.draw(st.booleans()))
        self.growing.streams += 1
        match self.growing.choose(("uniform", "normal", "choose", "sample_index")):
            case "uniform":
                self.add("uniform", F32, stream=stream, shared=shared, bits=self.growing.choose((16, 32)))
            case "normal":
                self.add("normal", F32, stream=stream, shared=shared)
            case opcode:
                self.add(opcode, U32, stream=stream, shared=shared, extent=self.shape[-1])

    def leaf(self) -> None:
        match self.growing.choose(("position", "param", "size")):
            case "position":
                self.add("position", U32, axis=self.growing.choose(("flat", "row", "column")))
            case "param":
                self.add("param", F32, name="gain")
            case "size":
                self.add("size", self.growing.choose(NUMBERS), value=Var("k"))
