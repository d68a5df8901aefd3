"""`make netlab`: time steps on shaped networks, and write what came of it.

Where there can be no such network: one line, and nothing is wrong.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.netlab.lab import why_not
from benchmarks.netlab.measure import Network, measure
from benchmarks.netlab.model import MOST_STEPS, numel
from benchmarks.netlab.planning import Planner
from benchmarks.netlab.report import Report, table
from benchmarks.netlab.setups import Setup, parse_setup
from benchmarks.netlab.timings import Job
from benchmarks.netlab.ways import ABLATION, PLAN, TOPK, WAYS
from compll.cli.output import show_error, write_json, write_text
from compll.diagnostics import CompllError
from compll.runtime.following import STEPS_BEFORE

NETWORKS = ("2x1@none", "2x1@1gbit", "2x1@100mbit", "4x1@1gbit", "4x1@100mbit", "2x2@1gbit")
LAYERS, WIDTH = 10, 1600
ROUNDS, WARM_UP = 7, STEPS_BEFORE + 2  # `auto` has decided by then


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit status: 0 measured, or there can be no such network; 1 a rank failed or gradients differed,
    130 stopped by hand."""
    options = _parser().parse_args(arguments)
    reason = why_not()
    if reason is not None:
        print(f"nothing to measure: {reason}")
        return 0
    command = " ".join(["python -m benchmarks.netlab", *(sys.argv[1:] if arguments is None else arguments)])
    networks: list[Network] = []
    try:
        for network in _measured(options):
            print("", network.setup.title, *table(network), sep="\n", flush=True)
            networks.append(network)
            _write(options, command, networks)
    except CompllError as problem:
        show_error(problem)
        return 1
    except KeyboardInterrupt:
        print("stopped; nothing is left of the networks")
        return 130
    return 1 if any(network.different for network in networks) else 0


def _measured(options: argparse.Namespace) -> Iterator[Network]:
    with tempfile.TemporaryDirectory(prefix="compll-netlab-") as folder:
        planner = Planner(folder=Path(folder), layers=options.layers, width=options.width, threads=options.threads)
        for setup in options.networks:
            job = Job(
                setup=setup, ways=_ways(setup, options.ways), rounds=options.rounds, warm_up=WARM_UP,
                layers=options.layers, width=options.width, threads=options.threads,
            )  # fmt: skip
            yield measure(job, planner)


def _write(options: argparse.Namespace, command: str, networks: Sequence[Network]) -> None:
    """What is known so far, written anew after each network."""
    size = f"{options.layers} layers of {options.width} x {options.width} with biases"
    model = f"{size}, {numel(options.layers, options.width):,} parameters"
    report = Report(command=command, model=model, threads=options.threads, networks=networks)
    write_json(options.json, report.as_json())
    if options.report is not None:
        write_text(options.report, report.markdown())


def _ways(setup: Setup, chosen: Sequence[str] | None) -> tuple[str, ...]:
    """Those that are asked for; else all that fit, the ablation's own ones with two workers only: memory is short."""
    own = set(ABLATION) - {TOPK, PLAN} if setup.workers > 2 else set()
    return tuple(name for name in WAYS if WAYS[name].fits(setup) and name in (chosen or WAYS.keys() - own))


def _setup(text: str) -> Setup:
    try:
        return parse_setup(text)
    except ValueError as problem:
        raise argparse.ArgumentTypeError(str(problem)) from None


def _rounds(text: str) -> int:
    if not text.isdigit() or not 1 <= int(text) <= MOST_STEPS - WARM_UP:
        raise argparse.ArgumentTypeError(f"needs a whole number from 1 to {MOST_STEPS - WARM_UP}")
    return int(text)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.netlab", description=__doc__)
    parser.add_argument(
        "--networks", nargs="+", type=_setup, default=[parse_setup(text) for text in NETWORKS],
        metavar="MACHINESxRANKS@RATE", help=f"default: {' '.join(NETWORKS)}",
    )  # fmt: skip
    parser.add_argument("--ways", nargs="+", choices=WAYS, metavar="WAY", help=f"of: {', '.join(WAYS)}")
    parser.add_argument("--rounds", type=_rounds, default=ROUNDS)
    parser.add_argument("--layers", type=int, default=LAYERS)
    parser.add_argument("--width", type=int, default=WIDTH)
    parser.add_argument("--threads", type=int, default=1, help="of each rank")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--report", type=Path, metavar="FILE", help="for people, in markdown")
    return parser


if __name__ == "__main__":
    sys.exit(main())
