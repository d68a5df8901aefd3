"""Compile program texts and run their unoptimised IR, for tests that speak of meaning."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from compll.codegen import ir
from compll.codegen.derive import derive
from compll.codegen.interpret import run, size_environment, to_view
from compll.codegen.lower import lower
from compll.codegen.philox import KeyWords
from compll.codegen.specialize import choose_alternatives, environment
from compll.codegen.verify import verify
from compll.diagnostics import SourceFile
from compll.dsl.check import check, parameter_values
from compll.dsl.parse import parse
from compll.sizes import extent

ALGORITHMS = Path(__file__).parent.parent / "algorithms"


class Interpreted:
    """One program for one gradient shape, run by the interpreter."""

    def __init__(self, text: str, shape: tuple[int, ...], **parameters: object) -> None:
        module, _ = check(parse(SourceFile("test.cll", text)))
        values = parameter_values(module, parameters)
        self.environment = environment(module, shape, values)
        alternatives = choose_alternatives(module, self.environment)
        self.program: ir.Program = derive(lower(module, values, alternatives))
        verify(self.program)
        self.environment = size_environment(self.program, self.environment)
        self.parameters = {p.name: values[p.name] for p in self.program.parameters}

    def shape(self, value: ir.Value) -> tuple[int, ...]:
        return tuple(extent(size, self.environment) for size in value.shape)

    def call(self, function: str, inputs: dict, key: KeyWords = KeyWords()) -> dict:
        return run(self.program.function(function), inputs, self.environment, self.parameters, key)

    def encode(self, gradient: np.ndarray, key: KeyWords = KeyWords(), **states: np.ndarray) -> dict:
        """encode without feedback; states are zeros unless given."""
        view = to_view(self.program.gradient, gradient.reshape(-1), self.environment)
        inputs = {("gradient", "gradient"): view}
        for port in self.program.function("encode").inputs[1:]:
            inputs[port.role, port.name] = states.get(port.name, np.zeros(self.shape(port.value), np.float32))
        return self.call("encode", inputs, key)

    def decode(self, encoded: dict, key: KeyWords = KeyWords()) -> np.ndarray:
        fields = {port: array for port, array in encoded.items() if port[0] in ("field", "count")}
        return self.call("decode", fields, key)["out", "out"]


def result_of(expression: str, gradient: np.ndarray, result: str = "f32", prelude: str = "") -> np.ndarray:
    """What `expression` over the gradient `g` (f32[n], or f32[rows, cols] for a matrix) makes, as a field."""
    view = "rows, cols" if gradient.ndim == 2 else "n"
    text = f"""compressor probe {{
        feedback none;
        payload {{ r: {result}; }}
        encode(g: f32[{view}]) {{ {prelude} return {{ r: {expression} }}; }}
        decode(p) -> f32[{view}] {{ return fill({view}, value = 0.0); }}
    }}"""
    program = Interpreted(text, gradient.shape)
    return program.encode(gradient)["field", "r"]
