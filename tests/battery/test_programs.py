"""Every shipped program keeps the contract on every backend of this machine."""

from __future__ import annotations

import pytest

from compll.battery import run_battery
from compll.runtime.devices import available_devices
from compll.runtime.load import built_in_names

#: Parameter values that change what a program promises.
VARIANTS: list[tuple[str, dict[str, object]]] = [
    ("randomk", {"scale": False}),
    ("terngrad", {"clip": float("inf")}),
    ("linear", {"bits": 1}),
    ("linear", {"bits": 7}),
]
CASES = [*((name, {}) for name in built_in_names()), *VARIANTS]


@pytest.mark.parametrize("backend", available_devices())
@pytest.mark.parametrize(("name", "params"), CASES, ids=lambda value: str(value))
def test_shipped_program_keeps_the_contract(name: str, params: dict[str, object], backend: str) -> None:
    report = run_battery(name, params, [backend])
    assert report.ok, [result for result in report.laws if not result.ok]
    assert "problem" not in report.profile, report.profile
