"""`compll bench`: what it writes, that it times in turns, what it does without a peer or with a slow one."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import compll
from compll.cli import main
from compll.cli.benchmark import contest, peers
from compll.cli.benchmark.contest import Contestant, compete
from compll.cli.benchmark.workload import DEVIATION, parse_workload
from compll.diagnostics import CompllError

CPU = torch.device("cpu")

SELECTING = """// sends the quarter of largest magnitude
compressor quarter {
    feedback residual;
    payload { index: u32[k]; value: f32[k]; }
    encode(g: f32[n]) {
        size k = max(1, floor(n / 4));
        let top = topk(g, k, by = abs);
        return { index: top.index, value: top.value };
    }
    decode(p) -> f32[n] { return scatter(n, p.index, p.value); }
}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working folder with one program that nobody has a baseline for; a short warm-up."""
    monkeypatch.setattr("compll.cli.benchmark.compiled.WARM_STEPS", 2)
    monkeypatch.chdir(tmp_path)
    Path("quarter.cll").write_text(SELECTING)
    peers.baselines.cache_clear()
    yield tmp_path
    peers.baselines.cache_clear()


def bench(*arguments: str) -> int:
    """The exit status of the command on the reference backend, two rounds."""
    with pytest.raises(SystemExit) as end:
        main(["bench", "--backend", "reference", "--rounds", "2", *arguments])
    return end.value.code or 0  # type: ignore[return-value]


def rows(path: str = "out.json") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(Path(path).read_text())["rows"]
    return found


def test_rows_have_what_machines_read() -> None:
    assert bench("--compressor", "topk:ratio=0.1", "--shapes", "flat:500", "--json", "out.json") == 0
    (row,) = rows()
    assert {"compressor", "backend", "shape", "feedback", "ms", "copies", "baseline", "speedup"} <= row.keys()
    assert (row["compressor"], row["backend"], row["shape"]) == ("topk", "reference", "flat:500")
    assert row["feedback"] is True and row["launch_bound"] is True
    assert row["payload_bytes"] == compll.load("topk", ratio=0.1).payload_bytes((500,))
    assert [peer["baseline"] for peer in row["baselines"]] == ["plain torch", "torch.topk alone", "bf16 cast"]


def test_figures_fit_together() -> None:
    assert bench("--compressor", "onebit", "--shapes", "20x30", "--json", "out.json") == 0
    (row,) = rows()
    assert row["copies"] == pytest.approx(row["ms"] / row["copy_ms"])
    assert row["ms_low"] <= row["ms"] <= row["ms_high"]
    first = row["baselines"][0]
    assert row["baseline"] == first["baseline"] and row["speedup"] == pytest.approx(first["ms"] / row["ms"])


def test_no_feedback_and_several_shapes() -> None:
    arguments = ("--compressor", "quarter.cll", "--shapes", "flat:40", "--shapes", "4x10", "--no-feedback")
    assert bench(*arguments, "--json", "out.json") == 0
    assert [(row["shape"], row["feedback"]) for row in rows()] == [("flat:40", False), ("4x10", False)]


def test_a_selection_is_compared_with_that_of_torch_whoever_wrote_it() -> None:
    assert bench("--compressor", "quarter.cll", "--shapes", "flat:40", "--json", "out.json") == 0
    assert rows()[0]["baseline"] == "torch.topk alone"
    assert peers.selected(compll.load("quarter.cll").sized((40,))) == (10, (40,))
    assert peers.selected(compll.load("adtopk", ratio=0.5).sized((4, 10))) == (5, (4, 10))
    assert peers.selected(compll.load("onebit").sized((40,))) is None


def test_a_selection_in_blocks_pads_the_last_one() -> None:
    blocks = SELECTING.replace("n]", "blocks(16), 16]").replace("f32[k]", "f32[blocks(16), k]")
    blocks = blocks.replace("u32[k]", "u32[blocks(16), k]").replace("n / 4", "4").replace("scatter(n,", "scatter(16,")
    Path("blocks.cll").write_text(blocks)
    assert peers.selected(compll.load("blocks.cll").sized((40,))) == (4, (3, 16))
    assert bench("--compressor", "blocks.cll", "--shapes", "flat:40", "--json", "out.json") == 0
    assert rows()[0]["baseline"] == "torch.topk alone"


def test_without_the_repository_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setattr(peers, "REPOSITORY", tmp_path)
    assert bench("--compressor", "onebit", "--shapes", "flat:100", "--json", "out.json") == 0
    assert "plain torch is not compared with" in capsys.readouterr().out
    assert rows()[0]["baseline"] == "bf16 cast"


def test_it_draws() -> None:
    assert bench("--compressor", "onebit", "--shapes", "flat:100", "--plot", "out.svg") == 0
    assert "onebit" in Path("out.svg").read_text() or Path("out.svg").stat().st_size > 5000


@pytest.mark.parametrize(
    ("arguments", "status", "text"),
    [
        (("--shapes", "resnet51"), 1, "a model (bert-large, resnet50), got `resnet51`"),
        (("--shapes", "flat:0"), 1, "have no elements"),
        (("--shapes", "3x"), 1, "a shape needs the form ROWSxCOLS or N, got `3x`"),
        (("--compressor", "onebitt"), 1, "did you mean `onebit`?"),
        (("--compressor", "topk:ratio=2"), 1, "`ratio`"),
        (("--rounds", "0"), 2, "--rounds"),
        (("--backend", "abacus"), 2, "abacus"),
    ],
)
def test_wrong_usage(arguments: tuple[str, ...], status: int, text: str, capsys: Any) -> None:
    assert bench(*arguments) == status
    assert text in capsys.readouterr().err


def test_one_that_cannot_be_measured_does_not_keep_the_others(capsys: Any) -> None:
    narrow = SELECTING.replace("quarter", "narrow").replace("index: u32[k]", "index: u8[k]")
    Path("narrow.cll").write_text(narrow)
    arguments = ("--compressor", "narrow.cll", "--compressor", "quarter.cll", "--shapes", "flat:1000")
    assert bench(*arguments, "--json", "out.json") == 1
    assert [row["compressor"] for row in rows()] == ["quarter"]
    assert "narrow.cll at flat:1000 is not measured" in capsys.readouterr().out


# Published parameter counts, that of BERT with its pooler and without a task's head.
@pytest.mark.parametrize(("model", "tensors", "count"), [("resnet50", 161, 25557032), ("bert-large", 391, 335141888)])
def test_models_have_the_published_size(model: str, tensors: int, count: int) -> None:
    workload = parse_workload(model, CPU)
    assert len(workload.shapes) == tensors and sum(map(math.prod, workload.shapes)) == count


def test_gradients_are_fresh_and_alike_in_every_run() -> None:
    workload, again = parse_workload("300x700", CPU), parse_workload("300x700", CPU)
    first, second = (workload.gradients(step)[0] for step in (0, 1))
    assert torch.equal(first, again.gradients(0)[0]) and first.shape == (300, 700)
    assert (first == second).float().mean() < 0.01
    assert abs(torch.corrcoef(torch.stack([first.view(-1), second.view(-1)]))[0, 1]) < 0.02
    assert second.std().item() == pytest.approx(DEVIATION, rel=0.02)


def test_a_step_has_the_same_values_flat_and_cut() -> None:
    workload = parse_workload("resnet50", CPU)
    pieces = torch.cat([gradient.reshape(-1) for gradient in workload.gradients(3)])
    assert torch.equal(pieces, workload.flat(3))


@pytest.fixture
def log() -> list[tuple[str, int]]:
    return []


def contestant(name: str, log: list[tuple[str, int]]) -> Contestant:
    return Contestant(name, lambda step: log.append((name, step)))


def test_all_take_turns_with_a_copy_before_each(log: list[tuple[str, int]]) -> None:
    a, b, copy = (contestant(name, log) for name in ("a", "b", "copy"))
    compete([a, b], copy, rounds=2, clock=contest.host_clock, first=7)
    assert [name for name, _ in log] == ["copy", "a", "copy", "b", "copy", "b", "copy", "a"]
    assert [step for _, step in log] == [7, 7, 7, 7, 8, 8, 8, 8]


def test_repeats_are_consecutive_steps_and_times_are_of_one(log: list[tuple[str, int]]) -> None:
    def clock(action: Any) -> float:
        action()
        return 0.6

    timings = compete([contestant("a", log)], contestant("copy", log), rounds=2, clock=clock, repeats=3)
    assert [step for name, step in log if name == "a"] == [0, 1, 2, 3, 4, 5]
    assert timings["a"].ms == pytest.approx(200) and timings["a"].samples == 2


def test_a_slow_one_leaves_early(log: list[tuple[str, int]]) -> None:
    def clock(action: Any) -> float:
        action()
        return contest.SECONDS if log[-1][0] == "slow" else 0.001

    slow, quick, copy = (contestant(name, log) for name in ("slow", "quick", "copy"))
    timings = compete([slow, quick], copy, rounds=20, clock=clock)
    assert timings["slow"].samples == contest.FEWEST and timings["quick"].samples == 20


def test_median_and_quartiles() -> None:
    timing = contest.summary([0.005, 0.001, 0.002, 0.004, 0.003])
    assert (timing.ms, timing.low, timing.high, timing.samples) == pytest.approx((3, 2, 4, 5))
    assert contest.summary([0.5]) == contest.Timing(ms=500.0, low=500.0, high=500.0, samples=1)


def test_a_batch_is_compared_with_one_flat_tensor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("compll.cli.benchmark.workload.read_model", lambda name: ((30, 5), (7,), (20, 20)))
    assert bench("--compressor", "onebit", "--shapes", "resnet50", "--json", "out.json") == 0
    (row,) = rows()
    names = [peer["baseline"] for peer in row["baselines"]]
    assert names == ["plain torch, a tensor at a time", "bf16 cast", "one flat tensor"]
    assert (row["tensors"], row["elements"]) == (3, 557)


def test_cuda_without_a_gpu_is_one_line(capsys: Any) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(SystemExit) as end:
        main(["bench", "--backend", "cuda"])
    assert end.value.code == 1
    assert len(capsys.readouterr().err.strip().splitlines()) == 1


def test_workload_needs_a_known_form() -> None:
    with pytest.raises(CompllError, match="got `flat`"):
        parse_workload("flat", CPU)
