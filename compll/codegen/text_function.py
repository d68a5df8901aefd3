"""Reads one function of the IR's text form: ports and operations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from compll.codegen import ir
from compll.codegen.text_sweep import SweepReader
from compll.codegen.text_tokens import Tokens

_ROLES: tuple[ir.Role, ...] = ("gradient", "residual", "state", "field", "count", "out", "finite", "cut")
_OPERATIONS = ("sort", "transpose", "orthonormalize", "all_reduce", "matmul")


class FunctionReader:
    """One function; `sweeps` knows the values defined so far."""

    def __init__(self, tokens: Tokens) -> None:
        self.t = tokens
        self.sweeps = SweepReader(tokens)

    def function(self) -> ir.Function:
        t = self.t
        name = t.take("name")
        t.expect("{")
        t.end()
        inputs = self._ports("in", self.sweeps.definition)
        operations = self._operations("out", "}")
        outputs = self._ports("out", self.sweeps.use)
        t.expect("}")
        t.end()
        return ir.Function(name=name, inputs=inputs, operations=operations, outputs=outputs)

    def _ports(self, word: str, value: Callable[[], ir.Value]) -> tuple[ir.Port, ...]:
        ports: list[ir.Port] = []
        while self.t.accept(word):
            role: Any = self.t.word(f"one of {', '.join(_ROLES)}", _ROLES)
            name = self.t.take("name")
            self.t.expect("=")
            ports.append(ir.Port(role=role, name=name, value=value()))
            self.t.end()
        return tuple(ports)

    # --- operations --------------------------------------------------------------------------------------------------

    def _operations(self, *ends: str) -> tuple[ir.Operation, ...]:
        operations = []
        while self.t.peek() not in ends:
            operations.append(self._operation())
        return tuple(operations)

    def _operation(self) -> ir.Operation:
        if self.t.accept("sweep"):
            return self.sweeps.sweep()
        if self.t.accept("loop"):
            return self._loop()
        result = self.sweeps.definition()
        self.t.expect("=")
        return self._simple(result)

    def _simple(self, result: ir.Value) -> ir.Operation:
        t = self.t
        word = t.word("an operation", _OPERATIONS)
        source = self.sweeps.use()
        match word:
            case "sort":
                descending = t.accept("descending")
                return ir.Sort(result=result, source=source, descending=descending, origin=t.end())
            case "transpose":
                return ir.Transpose(result=result, source=source, origin=t.end())
            case "orthonormalize":
                return ir.Orthonormalize(result=result, source=source, origin=t.end())
            case "all_reduce":
                return ir.AllReduce(result=result, source=source, origin=t.end())
            case _:
                right = self.sweeps.use()
                left_flag, right_flag = t.accept("transpose_left"), t.accept("transpose_right")
                return ir.MatMul(
                    result=result, left=source, right=right, transpose_left=left_flag, transpose_right=right_flag,
                    origin=t.end(),
                )  # fmt: skip

    def _loop(self) -> ir.Loop:
        t = self.t
        limit = int(t.take("number"))
        t.expect("{")
        origin = t.end()
        starts = []
        while t.accept("carry"):
            parameter = self.sweeps.definition()
            t.expect("=")
            starts.append((parameter, self.sweeps.use()))
            t.end()
        head = self._operations("while")
        t.expect("while")
        condition = self.sweeps.use()
        t.end()
        body = self._operations("yield", "}")
        carried = tuple(self._carried(parameter, initial) for parameter, initial in starts)
        t.expect("}")
        t.end()
        return ir.Loop(limit=limit, carried=carried, head=head, condition=condition, body=body, origin=origin)

    def _carried(self, parameter: ir.Value, initial: ir.Value) -> ir.Carried:
        self.t.expect("yield")
        yielded = self.sweeps.use()
        self.t.expect("=>")
        result = self.sweeps.definition()
        self.t.end()
        return ir.Carried(initial=initial, parameter=parameter, yielded=yielded, result=result)
