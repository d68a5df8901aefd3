"""Which form of feedback a program takes: the residual in memory, or formed on the fly where that moves fewer bytes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from compll.codegen import ir
from compll.codegen.convert import storage
from compll.codegen.interpret import run, size_environment
from compll.codegen.philox import KeyWords
from compll.codegen.plan import KernelPlan
from compll.codegen.traffic import traffic
from compll.sizes import extent

EAGER, LAZY = "encode_with_feedback", "encode_with_lazy_feedback"

#: Lazy feedback keeps a second payload; it must save more than noise.
_WORTH = 0.9


def feedback_form(program: ir.Program, plans: Mapping[str, KernelPlan], variables: Mapping[str, float]) -> str:
    """EAGER or LAZY, for gradients of the size in `variables` (numel, dimensions, parameters)."""
    if LAZY not in plans:
        return EAGER
    environment = size_environment(program, variables)
    costs = {form: traffic(plans[form], environment).bytes_per_element for form in (EAGER, LAZY)}
    pays = costs[LAZY] < _WORTH * costs[EAGER]
    return LAZY if pays and _zeros_decode_to_zeros(program, environment) else EAGER


def _zeros_decode_to_zeros(program: ir.Program, environment: Mapping[str, float]) -> bool:
    """Whether the payload before the first step, all zeros, says that nothing was sent."""
    decode = program.function("decode")
    fields = {
        (p.role, p.name): np.zeros([extent(s, environment) for s in p.value.shape], storage(p.value.dtype))
        for p in decode.inputs
    }
    parameters = {p.name: environment[p.name] for p in program.parameters}
    result = run(decode, fields, environment, parameters, KeyWords())
    return not result["out", "out"].any()
