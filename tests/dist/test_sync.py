"""All cases with real processes, each its own test; the cases are in the modules beside this one."""

from __future__ import annotations

import arriving
import doors
import facts
import failures
import layers
import ledger
import pytest
import replicas
import resuming
import strategies
import training
from harness import Case, Outcome, run_cases

MODULES = (facts, training, layers, doors, resuming, failures, ledger, replicas, strategies, arriving)
#: Large worlds first: a small one leaves its ranks in more groups than the others, which torch takes amiss.
CASES = sorted((case for module in MODULES for case in module.CASES), key=lambda case: -case[1])


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    return run_cases(CASES, tmp_path_factory.mktemp("dist"))


@pytest.mark.dist
@pytest.mark.parametrize("case, world", CASES, ids=[f"{case.__name__}-{world}" for case, world in CASES])
def test_case(case: Case, world: int, outcome: Outcome) -> None:
    outcome.check(case, world)
