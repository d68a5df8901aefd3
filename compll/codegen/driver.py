"""The compiler as a table of contents: one cached property per stage, each a value that can be printed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache

from compll.codegen import ir
from compll.codegen.derive import derive
from compll.codegen.emit import emit_source
from compll.codegen.feedback_form import feedback_form
from compll.codegen.kernels import partition
from compll.codegen.layout import PayloadLayout, payload_layout
from compll.codegen.lower import lower
from compll.codegen.passes import optimise
from compll.codegen.plan import KernelPlan
from compll.codegen.specialize import environment
from compll.codegen.verify import verify
from compll.dsl import ast

#: A gradient large enough that bytes decide, small enough to be tried.
USUAL_SHAPE = (1024, 1024)


@dataclass(frozen=True)
class Compilation:
    """One checked program for given parameter values, payload alternatives and gradient dtype ("f32" | "f16" | "bf16").

    `values` holds every parameter; those that types and conditions use are folded in, the others stay arguments.
    `alternatives` chooses, for each conditional payload field in order, one of its types.
    """

    module: ast.Module
    values: tuple[tuple[str, float | int | bool], ...]
    alternatives: tuple[int, ...] = ()
    gradient_dtype: str = "f32"

    @cached_property
    def program(self) -> ir.Program:
        """The program with its derived functions, before any optimisation."""
        program = derive(lower(self.module, dict(self.values), self.alternatives))
        verify(program)
        return program

    @cached_property
    def layout(self) -> PayloadLayout:
        return payload_layout(self.program)

    @cached_property
    def optimised(self) -> ir.Program:
        return optimise(self.program)

    @cached_property
    def plans(self) -> Mapping[str, KernelPlan]:
        """A kernel plan for every function, by name."""
        return {f.name: partition(self.optimised, f, self.gradient_dtype) for f in self.optimised.functions}

    @cached_property
    def feedback_function(self) -> str:
        """The encode that keeps a residual: of the two forms the one that moves fewer bytes on a large gradient."""
        variables = environment(self.module, USUAL_SHAPE, dict(self.values))
        return feedback_form(self.program, self.plans, variables)

    def source(self, target: str) -> str:
        """One file of generated text holding all functions; `target` is "cpu" or "cuda"."""
        return _source(self, target)


@lru_cache(maxsize=256)
def _source(compilation: Compilation, target: str) -> str:
    return emit_source(compilation.program.name, tuple(compilation.plans.values()), target)
