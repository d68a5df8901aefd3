"""`make gpu`: run everything that needs a GPU and write the report. Without a GPU: one line, and nothing is wrong.

`--backend emulator` tries the script itself without a GPU; take small shapes then (`--shapes flat:20000`).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import torch

from benchmarks.gpu.facts import ROOT, facts
from benchmarks.gpu.figures import bandwidth, figures
from benchmarks.gpu.report import Report
from benchmarks.gpu.stress import Subject, stress
from benchmarks.gpu.suite import run_suite
from compll.runtime.devices import missing_devices
from compll.runtime.load import built_in_names

PARTS = ("suite", "figures", "stress")
SHAPES = ("flat:67108864", "resnet50")
INEXACT = ("powersgd",)
LARGEST = {"cuda": 1 << 22, "emulator": 1 << 12}


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit status: 0 all right or no GPU, 1 where something is wrong."""
    options = _parser().parse_args(arguments)
    reason = missing_devices().get(options.backend)
    if reason is not None:
        print(f"nothing to run: backend `{options.backend}` is not there: {reason}")
        return 0
    device = torch.device("cuda" if options.backend == "cuda" else "cpu")
    command = " ".join(["python -m benchmarks.gpu", *(sys.argv[1:] if arguments is None else arguments)])
    report = Report(options.out, facts(device), command)
    for part in options.parts:
        print(f"{part} ...", flush=True)
        {"suite": _suite, "figures": _figures, "stress": _stress}[part](report, options, device)
        print(report.write(), flush=True)
    return 0 if report.ok else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__)
    parser.add_argument("--backend", choices=("cuda", "emulator"), default="cuda")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS), help="what to run, in this order")
    parser.add_argument("--compressors", nargs="+", default=list(built_in_names()), metavar="NAME")
    parser.add_argument("--shapes", nargs="+", default=list(SHAPES), metavar="SHAPE", help="as of `compll bench`")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--tests", default="", metavar="EXPRESSION", help="as of `pytest -k`; default: all")
    parser.add_argument("--test-seconds", type=float, default=1500.0)
    parser.add_argument("--stress-seconds", type=float, default=60.0)
    parser.add_argument("--out", type=Path, default=ROOT / "reports", metavar="FOLDER")
    return parser


def _suite(report: Report, options: argparse.Namespace, device: torch.device) -> None:
    chosen = ["-k", options.tests] if options.tests else []
    report.suite = run_suite(options.backend, chosen, options.test_seconds)


def _figures(report: Report, options: argparse.Namespace, device: torch.device) -> None:
    report.bandwidth = bandwidth(device, 1 << 26)
    for found in figures(options.compressors, options.shapes, options.backend, device, options.rounds):
        if isinstance(found, str):
            report.unmeasured.append(found)
        else:
            report.figures.append(found)
        report.write()


def _stress(report: Report, options: argparse.Namespace, device: torch.device) -> None:
    names = [name for name in options.compressors if name not in INEXACT]
    report.stress = stress(names, Subject(options.backend, device, LARGEST[options.backend]), options.stress_seconds)


if __name__ == "__main__":
    sys.exit(main())
