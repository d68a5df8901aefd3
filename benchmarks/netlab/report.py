"""The report of a run: tables for people, JSON for machines."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import torch

import compll
from benchmarks.netlab.lab import burst
from benchmarks.netlab.measure import Network
from benchmarks.netlab.targets import prediction_errors, verdicts
from benchmarks.netlab.timings import Timing
from benchmarks.netlab.ways import ABLATION, FP16, FP32, NOTHING, PLAN, WAYS


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    command: str
    model: str
    threads: int
    networks: Sequence[Network]

    def as_json(self) -> dict[str, Any]:
        return {
            "facts": facts(), "command": self.command, "model": self.model, "targets": list(verdicts(self.networks)),
            "networks": [network.as_json() for network in self.networks],
        }  # fmt: skip

    def markdown(self) -> str:
        return "\n".join(self._lines()) + "\n"

    def _lines(self) -> Iterator[str]:
        yield from ("# Steps on slow networks", "", "Written by the command; nothing here is typed by hand.", "")
        yield from ("```", self.command, "```", "")
        yield from (f"- {name}: {value}" for name, value in facts().items())
        yield f"- model: {self.model}; gradients are given, so that a step is a copy of them and synchronisation"
        yield f"- threads: {self.threads} of each rank, a process in a network namespace; all share the cores above"
        yield from ("", "## Targets", "", *(f"- {text}" for text in verdicts(self.networks)))
        for network in self.networks:
            yield from _network_lines(network)
        yield from ("", "## Ways", "", *(f"- `{name}`: {way.note}" for name, way in WAYS.items()))


def facts() -> dict[str, str]:
    """What figures depend on; every value is text."""
    return {
        "date": date.today().isoformat(), "kernel": f"{platform.system()} {platform.release()}",
        "cores": str(os.cpu_count()), "python": platform.python_version(), "torch": torch.__version__,
        "commit": _commit(),
    }  # fmt: skip


def table(network: Network) -> Iterator[str]:
    """Median steps, quartiles in brackets; what a machine sends in one and how long its link needs for that alone; how
    many times faster synchronisation is than dense ones."""
    yield "| way | step, ms | synchronisation, ms | MB sent | link alone, ms | of fp32 | of fp16 |"
    yield "|---|---|---|---|---|---|---|"
    for timing in network.timings:
        faster = (_faster(network.of(dense), timing) for dense in (FP32, FP16))
        sent = f"{timing.sent_mb:.2f} | {network.link_ms(timing):.1f}"
        yield f"| {timing.way} | {_step(timing)} | {timing.sync_ms:.1f} | {sent} | {' | '.join(faster)} |"


def _network_lines(network: Network) -> Iterator[str]:
    yield from ("", f"## {network.setup.title}", "")
    before, after = network.load
    yield f"A link carried {network.link_mbit:.0f} Mbit/s when tried alone{_burst(network)}."
    yield f"{network.rounds} rounds, ways in turns in a new order each. Load {before:.1f} before, {after:.1f} after;"
    yield f"other work took {network.others:.0%} of the cores meanwhile."
    yield from ("", *table(network))
    if network.different:
        yield from ("", f"NOT the same bits on all ranks: {', '.join(network.different)}.")
    yield from (f"\nLeft out: {way}: {why}" for way, why in network.left_out.items())
    yield from _ablation(network)
    yield from _plan(network)
    yield from _prediction(network)


def _burst(network: Network) -> str:
    if network.setup.rate == "none":
        return ""
    return f"; {burst(network.setup.rate) // 1000} kB pass at once"


def _ablation(network: Network) -> Iterator[str]:
    found = [timing for way in ABLATION if (timing := network.of(way))]
    if len(found) < len(ABLATION) - 1:
        return
    yield from ("", "One part after another, topk at 1 %; synchronisation so many times faster than in the line above:")
    yield from ("", "| with | step, ms | faster |", "|---|---|---|")
    before: Timing | None = None
    for timing in found:
        yield f"| {timing.way} | {_step(timing)} | {_faster(before, timing)} |"
        before = timing


def _plan(network: Network) -> Iterator[str]:
    if network.planned is not None:
        routes = ", ".join(f"{count} {name}" for name, count in sorted(network.planned.routes.items()))
        measured = network.of(PLAN)
        took = f", measured {measured.step_ms:.1f} ms" if measured else ""
        yield from ("", f"The plan: {routes}; predicted {network.planned.plan_ms:.1f} ms{took}.")


def _prediction(network: Network) -> Iterator[str]:
    errors = prediction_errors(network)
    if not errors or network.planned is None:
        return
    yield from ("", "`compll simulate`, from a profile measured on this network before:", "")
    yield from ("| way | predicted, ms | median, ms | off by | least, ms | off by |", "|---|---|---|---|---|---|")
    for way, error in errors.items():
        timing = network.of(way)
        assert timing is not None
        predicted = network.planned.predicted[way]
        least = f"{timing.least_ms:.1f} | {predicted / timing.least_ms - 1:+.0%}"
        yield f"| {way} | {predicted:.1f} | {timing.step_ms:.1f} | {error:+.0%} | {least} |"


def _step(timing: Timing) -> str:
    return f"{timing.step_ms:.1f} [{timing.low_ms:.1f}, {timing.high_ms:.1f}]"


def _faster(other: Timing | None, timing: Timing) -> str:
    if other is None or NOTHING in (timing.way, other.way) or not timing.sync_ms:
        return ""
    return f"{other.sync_ms / timing.sync_ms:.1f}"


def _commit() -> str:
    command = ["git", "-C", str(Path(compll.__file__).parents[1]), "describe", "--always", "--dirty"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else "unknown"
