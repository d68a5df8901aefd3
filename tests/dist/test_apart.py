"""Ranks that begin, fail or leave alone: the others hear of it at once."""

from __future__ import annotations

import beginning
import leaving
import pytest
from apart import Case, run_apart
from harness import Outcome

CASES = [*beginning.CASES, *leaving.CASES]


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    return run_apart(CASES, tmp_path_factory.mktemp("apart"))


@pytest.mark.dist
@pytest.mark.parametrize("case, world", CASES, ids=[f"{case.__name__}-{world}" for case, world in CASES])
def test_case(case: Case, world: int, outcome: Outcome) -> None:
    outcome.check(case, world)
