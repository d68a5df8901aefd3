"""What `compll profile`, `plan` and `simulate` make of a network: the way a user goes, by the command line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.netlab import model
from benchmarks.netlab.lab import DEVICE, Lab, address
from benchmarks.netlab.setups import Setup
from benchmarks.netlab.ways import BF16, FP32, TOPK

PORT = "29571"
MODEL = "benchmarks.netlab.model:profiled"
LARGEST = 1 << 22  # elements, beyond caches: what fits into them is encoded faster than a step is
REPEATS = 5
TIMEOUT_S = 600.0
TOPK_REQUEST = "topk:ratio=0.01"
REQUESTS = (TOPK_REQUEST, "onebit", "terngrad", "randomk:ratio=0.01", "powersgd:rank=4")

#: What `compll simulate` calls the ways that it predicts.
SIMULATED: Mapping[str, str] = {
    FP32: "dense-fp32", BF16: "dense-bf16", TOPK: "topk/allgather", "topk ps": "topk/ps", "topk ring": "topk/ring",
    "onebit": "onebit/allgather", "terngrad": "terngrad/allgather", "randomk allreduce": "randomk/allreduce",
    "powersgd": "powersgd/rounds",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """`plan` is the file; `routes` how many gradients take each; `predicted` steps in ms by way."""

    plan: Path
    routes: Mapping[str, int]
    plan_ms: float
    predicted: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Planner:
    """Writes its files to `folder`. Its methods raise RuntimeError with what a command said when it fails."""

    folder: Path
    layers: int
    width: int
    threads: int

    def plan(self, lab: Lab, setup: Setup) -> Planned:
        """Measure with one rank on each machine of the lab, as it is shaped now; find the plan for it."""
        profile, plan, report = (self.folder / f"{name}-{setup.label}.json" for name in ("profile", "plan", "report"))
        self._profile(lab, setup, profile)
        self._compll("plan", str(profile), "--compressor", TOPK_REQUEST, "--output", str(plan), "--json", str(report))
        found = json.loads(report.read_text())
        return Planned(
            plan=plan, routes=found["gradients"], plan_ms=found["step_ms"], predicted=self._simulate(setup, profile)
        )

    def _profile(self, lab: Lab, setup: Setup, output: Path) -> None:
        command = [sys.executable, "-W", "ignore", "-m", "compll", "profile", "--model", MODEL, "--output", str(output)]
        command += ["--threads", str(self.threads), "--repeats", str(REPEATS), "--largest", str(LARGEST)]
        command += [word for request in REQUESTS for word in ("--compressor", request)]
        shared = {"WORLD_SIZE": str(setup.workers), "MASTER_ADDR": address(0), "MASTER_PORT": PORT}
        shared |= {"GLOO_SOCKET_IFNAME": DEVICE, **self._environment()}
        running = [m.start(command, {**shared, "RANK": str(rank)}) for rank, m in enumerate(lab.machines)]
        try:
            for process in running:
                _check(command, process.communicate(timeout=TIMEOUT_S)[0], process.returncode)
        finally:
            for process in running:
                process.kill()
                process.wait()

    def _simulate(self, setup: Setup, profile: Path) -> dict[str, float]:
        if setup.rate == "none":
            return {}
        report = self.folder / "simulated.json"
        self._compll(
            "simulate", "--profile", str(profile), "--workers", str(setup.workers), "--bandwidth", setup.rate,
            "--json", str(report),
        )  # fmt: skip
        steps: dict[str, Any] = json.loads(report.read_text())["rows"][0]["step_ms"]
        return {way: steps[name] for way, name in SIMULATED.items() if name in steps}

    def _compll(self, *arguments: str) -> None:
        command = [sys.executable, "-m", "compll", *arguments]
        done = subprocess.run(
            command, env=self._environment(), text=True, check=False,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        _check(command, done.stdout, done.returncode)

    def _environment(self) -> dict[str, str]:
        return {**os.environ, model.SIZE: f"{self.layers}x{self.width}"}


def _check(command: list[str], output: str, status: int) -> None:
    if status:
        raise RuntimeError(f"`{' '.join(command)}` ended with status {status}:\n{output.strip()}")
