"""The tests, in a process of their own: one that a faulty kernel takes down leaves the rest of the run alone."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.gpu.facts import ROOT

TESTS = ("tests/gpu",)
TAIL = 40  # lines of output kept


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteResult:
    """`failures` are names with the first line of what was wrong; `output` the end of what pytest printed."""

    counts: dict[str, int]
    failures: dict[str, str]
    seconds: float
    output: str

    @property
    def ok(self) -> bool:
        return self.counts["passed"] > 0 and not self.failures


def run_suite(backend: str, arguments: Sequence[str], timeout: float) -> SuiteResult:
    """Run pytest on the GPU tests; one that takes longer than `timeout` seconds counts as failed."""
    with tempfile.TemporaryDirectory() as folder:
        written = Path(folder) / "junit.xml"
        command = [sys.executable, "-m", "pytest", *TESTS, f"--junitxml={written}", "--tb=short", *arguments]
        environment = {**os.environ, "COMPLL_GPU_BACKEND": backend}
        try:
            done = subprocess.run(
                command, cwd=ROOT, env=environment, timeout=timeout, text=True, check=False,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            )  # fmt: skip
            output = done.stdout
        except subprocess.TimeoutExpired as problem:
            partial = problem.stdout or b""
            output = partial.decode(errors="replace") if isinstance(partial, bytes) else partial
        return _read(written, "\n".join(output.splitlines()[-TAIL:]), timeout)


def _read(written: Path, output: str, timeout: float) -> SuiteResult:
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    if not written.exists():
        why = "pytest did not get to its end: it crashed or ran out of its time"
        return SuiteResult(counts=counts | {"failed": 1}, failures={"pytest": why}, seconds=timeout, output=output)
    failures: dict[str, str] = {}
    suite = next(ElementTree.parse(written).iter("testsuite"))
    for case in suite.iter("testcase"):
        problem = next((child for child in case if child.tag in ("failure", "error")), None)
        if problem is not None:
            counts["failed"] += 1
            failures[f"{case.get('classname')}::{case.get('name')}"] = (problem.get("message") or "").split("\n")[0]
        else:
            counts["skipped" if case.find("skipped") is not None else "passed"] += 1
    return SuiteResult(counts=counts, failures=failures, seconds=float(suite.get("time", 0)), output=output)
