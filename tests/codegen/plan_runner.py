"""Runs a kernel plan on simulated memory: each kernel by the interpreter, values where the plan puts them.

A value that is read after something else was written over it comes out wrong here, as it would on a device. Within one
kernel everything is read before anything is written; that kernels may do so is checked by structure.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from compll.codegen import ir, uses
from compll.codegen.convert import storage
from compll.codegen.interpret import run
from compll.codegen.philox import KeyWords
from compll.codegen.plan import DecodeAscending, EncodeAscending, Kernel, KernelPlan, LoadCount, Repeat, StoreCount
from compll.sizes import extent, product


@dataclass
class PlanRunner:
    """The memory of one segment."""

    plan: KernelPlan
    environment: dict[str, float]
    parameters: dict[str, ir.Scalar]
    key: KeyWords
    memory: dict[str, np.ndarray] = field(default_factory=dict)
    ascending: dict[str, np.ndarray] = field(default_factory=dict)  # by section
    counts: dict[int, np.ndarray] = field(default_factory=dict)  # by offset in the header

    def run(self, function: ir.Function, inputs: dict) -> dict:
        """The outputs of the function, taken from memory after all kernels."""
        for port in function.inputs:
            self._bring(port, inputs[port.role, port.name])
        self._kernels(self.plan.kernels)
        return {(p.role, p.name): self._take(p) for p in function.outputs}

    def _bring(self, port: ir.Port, array: np.ndarray) -> None:
        if port.role == "count":
            self.counts[self._section(port.name).count_offset] = array
        elif port.role == "field" and self._section(port.name).coding == "ascending":
            self.ascending[port.name] = array
        else:
            self.memory[self.plan.buffer_of(port.value).name] = array.copy()

    def _take(self, port: ir.Port) -> np.ndarray:
        if port.role == "count":
            return self.counts[self._section(port.name).count_offset]
        if port.role == "field" and self._section(port.name).coding == "ascending":
            return self.ascending[port.name]
        names = {"field": f"payload_{port.name}", "state": f"state_{port.name}", "cut": "cut"}
        return self.memory[names.get(port.role, port.role)]

    def _section(self, name: str):
        return self.plan.layout.section(name)

    def _kernels(self, kernels: tuple[Kernel, ...]) -> None:
        for kernel in kernels:
            match kernel.step:
                case Repeat(limit=limit, head=head, condition=condition, body=body):
                    for _ in range(limit):
                        self._kernels(head)
                        if not self._value(condition):
                            break
                        self._kernels(body)
                case LoadCount(result=result, offset=offset, limit=limit):
                    capacity = np.uint32(extent(limit, self.environment))
                    self._store(result, np.minimum(self.counts[offset], capacity))
                case StoreCount(source=source, offset=offset):
                    self.counts[offset] = self._value(source)
                case EncodeAscending(source=source, section=section):
                    self.ascending[section.name] = self._value(source)
                case DecodeAscending(result=result, section=section):
                    self._store(result, self.ascending[section.name])
                case operation:
                    self._operation(operation)

    def _operation(self, operation: ir.Operation) -> None:
        """One operation as a function of its own."""
        values = uses.reads(operation)
        counts = [c for v in (*values, *ir.results(operation)) for c in uses.count_of(v.count)]
        made = {value.name for value in ir.results(operation)}
        known = {v.name: v for v in (*counts, *values) if v.name not in made}
        inputs = tuple(ir.Port(role="field", name=v.name, value=v) for v in known.values())
        outputs = tuple(ir.Port(role="field", name=v.name, value=v) for v in ir.results(operation))
        function = ir.Function(name="kernel", inputs=inputs, operations=(operation,), outputs=outputs)
        arrays = {("field", v.name): self._value(v) for v in known.values()}
        found = run(function, arrays, self.environment, self.parameters, self.key)
        for value in ir.results(operation):
            self._store(value, found["field", value.name])

    def _value(self, value: ir.Value) -> np.ndarray:
        held = self.memory[self.plan.buffer_of(value).name]
        assert held.dtype == storage(value.dtype), (value, held.dtype)
        return held

    def _store(self, value: ir.Value, array: np.ndarray) -> None:
        buffer = self.plan.buffer_of(value)
        assert tuple(extent(s, self.environment) for s in buffer.shape) == array.shape
        array = array.copy()
        if self.plan.gradient.kind == "blocks" and buffer.role in ("residual", "out"):
            array.reshape(-1)[int(self.environment["numel"]) :] = 0
        assert extent(product(buffer.shape), self.environment) == array.size
        self.memory[buffer.name] = array
