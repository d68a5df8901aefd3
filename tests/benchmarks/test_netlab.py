"""The slow network is really slow, and goes away; reading and summing up of its figures."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from benchmarks.netlab.lab import bits_per_second, burst, open_lab, why_not
from benchmarks.netlab.measure import Network
from benchmarks.netlab.model import numel
from benchmarks.netlab.planning import Planned
from benchmarks.netlab.setups import Setup, parse_setup
from benchmarks.netlab.targets import verdicts
from benchmarks.netlab.timings import Job, Steps, timings
from benchmarks.netlab.ways import FP16, FP32, NOTHING, TOPK
from benchmarks.netlab.worker import work
from compll.cli.training.launch import run_job

RATE = "100mbit"
LAYERS, WIDTH, ROUNDS = 3, 300, 3
REASON = why_not()

needs_lab = pytest.mark.skipif(REASON is not None, reason=str(REASON))


def namespaces_held() -> int:
    """How many network namespaces this process holds open."""
    links = (entry for entry in Path("/proc/self/fd").iterdir() if entry.is_symlink())
    return sum(os.readlink(link).startswith("net:") for link in links)


@needs_lab
@pytest.mark.dist
def test_steps_take_as_long_as_their_bytes_on_a_shaped_link() -> None:
    """Dense gradients of two ranks: everyone sends as many bytes as there are, and none of them is faster than the
    link; topk sends a fraction and is through sooner."""
    with open_lab(2) as lab:
        lab.shape(RATE)
        job = Job(
            setup=parse_setup(f"2x1@{RATE}"), ways=(NOTHING, FP32, TOPK), rounds=ROUNDS, warm_up=3, layers=LAYERS,
            width=WIDTH, threads=1, namespaces=tuple(machine.path for machine in lab.machines),
        )  # fmt: skip
        steps = list(run_job(job, work))
    assert sorted(step.rank for step in steps) == [0, 1]
    assert all(len(step.seconds[way]) == ROUNDS and not step.different for step in steps for way in job.ways)
    nbytes = 4 * numel(LAYERS, WIDTH)
    least = 8 * (nbytes - burst(RATE)) / bits_per_second(RATE)
    for step in steps:
        assert min(step.sent[FP32]) >= nbytes
        assert min(step.seconds[FP32]) >= least
        assert max(step.sent[TOPK]) < 0.1 * nbytes
        assert min(step.seconds[TOPK]) < 0.5 * least


@needs_lab
def test_nothing_remains_of_a_lab_that_is_interrupted() -> None:
    before = namespaces_held()
    with pytest.raises(KeyboardInterrupt), open_lab(2) as lab, open_lab(2):
        lab.shape("1gbit")
        assert namespaces_held() == before + 6
        raise KeyboardInterrupt
    assert namespaces_held() == before


@needs_lab
def test_command_that_fails_inside_is_told() -> None:
    with open_lab(1) as lab, pytest.raises(RuntimeError, match="`ip link set nobody up` failed: .*nobody"):
        lab.machines[0].run("ip", "link", "set", "nobody", "up")


def test_network_as_typed() -> None:
    assert parse_setup("4x2@100mbit") == Setup(machines=4, ranks=2, rate="100mbit")
    assert parse_setup("4x2@100mbit").workers == 8
    assert bits_per_second("2.5gbit") == 2.5e9
    for wrong in ("1x1@1gbit", "2x0@1gbit", "2x1@fast", "2x1"):
        with pytest.raises(ValueError, match="needs the form"):
            parse_setup(wrong)


def test_slowest_rank_counts_and_backward_is_taken_off() -> None:
    sent = {NOTHING: [0, 0, 0], FP32: [10, 20, 30]}
    ranks = [
        Steps(rank=0, seconds={NOTHING: [1.0, 1.0, 1.0], FP32: [5.0, 2.0, 3.0]}, sent=sent, different=()),
        Steps(rank=1, seconds={NOTHING: [1.0, 2.0, 2.0], FP32: [1.0, 4.0, 9.0]}, sent=sent, different=()),
    ]
    nothing, dense = timings(ranks, NOTHING)
    assert (nothing.step_ms, nothing.sync_ms) == (2000.0, 0.0)
    assert (dense.step_ms, dense.low_ms, dense.high_ms, dense.sync_ms) == (5000.0, 4500.0, 7000.0, 3000.0)
    assert (dense.least_ms, dense.sent_mb) == (4000.0, 20e-6)


def test_targets_are_judged_by_what_was_measured() -> None:
    sent = {way: [0] for way in (NOTHING, FP32, FP16, TOPK)}
    seconds = {NOTHING: [0.1], FP32: [0.9], FP16: [0.4], TOPK: [0.2]}
    found = timings([Steps(rank=0, seconds=seconds, sent=sent, different=())], NOTHING)
    planned = Planned(plan=Path("plan.json"), routes={}, plan_ms=1.0, predicted={FP32: 1000.0, TOPK: 240.0})
    network = Network(
        setup=parse_setup("2x1@1gbit"), timings=found, link_mbit=1e3, load=(0.0, 0.0), others=0.0, rounds=1,
        planned=planned,
    )  # fmt: skip
    fp32, fp16, predictions = verdicts([network])
    assert fp32.startswith("reached") and "8.0 times" in fp32
    assert fp16.startswith("missed") and "3.0 times" in fp16
    assert predictions.startswith("missed: 1 of 2") and "off by 20%" in predictions
