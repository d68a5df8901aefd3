"""Random programs, optimised and compiled, give the interpreter's bytes for the unoptimised ones."""

from __future__ import annotations

import os

import pytest
from differential.programs_on_cpu import QUICK_FLAGS, Inputs, compiled, emulated, interpreted, unequal
from hypothesis import HealthCheck, given, settings

from compll.runtime.devices import available_devices
from tests.strategies import Case, cases

pytestmark = pytest.mark.skipif("cpu" not in available_devices(), reason="needs a C++ compiler")
EXAMPLES = int(os.environ.get("COMPLL_EXAMPLES", "12"))


@settings(
    max_examples=EXAMPLES, deadline=None, derandomize="COMPLL_EXAMPLES" not in os.environ, database=None,
    suppress_health_check=list(HealthCheck),
)  # fmt: skip
@given(cases())
def test_compiled_means_interpreted(case: Case) -> None:
    inputs = Inputs(case.environment, case.parameters, case.key, case.gradient, case.states)
    expected = interpreted(case.program, inputs)
    for threads in (1, 2):
        assert unequal(expected, compiled(case.program, inputs, threads, QUICK_FLAGS)) == []


@settings(
    max_examples=max(1, EXAMPLES // 3), deadline=None, derandomize="COMPLL_EXAMPLES" not in os.environ, database=None,
    suppress_health_check=list(HealthCheck),
)  # fmt: skip
@given(cases())
def test_emulated_means_interpreted(case: Case) -> None:
    """The CUDA text, in three orders of threads."""
    inputs = Inputs(case.environment, case.parameters, case.key, case.gradient, case.states)
    expected = interpreted(case.program, inputs)
    for order in ("0", "1", "2"):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("EMULATOR_ORDER", order)
            assert unequal(expected, emulated(case.program, inputs)) == []
