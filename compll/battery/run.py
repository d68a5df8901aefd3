"""The loop: every law on every backend, and the report."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch

from compll.battery.law import Law, LawResult, Subject, Violation
from compll.battery.laws import LAWS
from compll.battery.profile import profile
from compll.runtime.devices import available_devices
from compll.runtime.load import load


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What the battery found; `profile` was measured on the last backend."""

    file: str
    compressor: str
    backends: tuple[str, ...]
    laws: tuple[LawResult, ...]
    profile: Mapping[str, Any]

    @property
    def ok(self) -> bool:
        return all(result.ok for result in self.laws)

    def with_results(self, results: Sequence[LawResult]) -> Report:
        """The report with further results, of backends that need not be among its own."""
        names = dict.fromkeys((*self.backends, *(result.backend for result in results)))
        return replace(self, backends=tuple(names), laws=(*self.laws, *results))

    def as_json(self) -> dict[str, Any]:
        return {
            "ok": self.ok, "file": self.file, "compressor": self.compressor, "backends": list(self.backends),
            "laws": [asdict(result) for result in self.laws], "profile": dict(self.profile),
        }  # fmt: skip


def run_battery(
    source: str | os.PathLike[str],
    params: Mapping[str, object] | None = None,
    backends: Sequence[str] | None = None,
    on_result: Callable[[LawResult], None] = lambda result: None,
) -> Report:
    """Check a program (a name or a path) with these parameter values on the backends, by default all that are there.

    `on_result` hears of every result as it comes. Raises CompllError when the program or a parameter is faulty.
    """
    names = tuple(available_devices() if backends is None else backends)
    reference = load(source, backend="reference", **(params or {}))
    results: list[LawResult] = []
    for name in names:
        device = torch.device("cuda" if name == "cuda" else "cpu")
        compressor = load(source, backend=name, **(params or {}))
        subject = Subject(compressor=compressor, reference=reference, backend=name, device=device)
        for law in LAWS:
            if law.applies(compressor) and not (law.needs_reference and name == "reference"):
                results.append(ask(law, subject))
                on_result(results[-1])
    measured = _measure(subject) if names else {}
    return Report(
        file=os.fspath(source), compressor=reference.name, backends=names, laws=tuple(results), profile=measured
    )


def ask(law: Law, subject: Subject) -> LawResult:
    """One law of one compressor. An exception of the compressor is a violation too."""
    try:
        return LawResult(law=law.name, backend=subject.backend, ok=True, detail=law.check(subject))
    except Violation as violation:
        detail = str(violation)
    except Exception as problem:  # the compressor under test may do anything
        detail = f"{type(problem).__name__}: {problem}"
    return LawResult(law=law.name, backend=subject.backend, ok=False, detail=detail)


def _measure(subject: Subject) -> dict[str, Any]:
    """The profile, or the reason why there is none: a broken program has failed its laws already."""
    try:
        return profile(subject)
    except Exception as problem:  # the compressor under test may do anything
        return {"problem": f"{type(problem).__name__}: {problem}"}
