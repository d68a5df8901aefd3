"""The demo job: what is typed, the data, and real worker processes that finish, fail or are killed."""

from __future__ import annotations

import gzip
import json
import multiprocessing
import os
import signal
from pathlib import Path

import pytest
import torch

from compll.cli import main
from compll.cli.training import data
from compll.cli.training.launch import run_job
from compll.cli.training.plot import smooth
from compll.cli.training.request import Request, parse_request
from compll.cli.training.results import Job, Progress, Run
from compll.cli.training.tasks import TASKS
from compll.cli.values import parse_value, show_value
from compll.diagnostics import CompllError


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("true", True), ("false", False), ("3", 3), ("-2", -2), ("0.5", 0.5), (".5", 0.5), ("1e-3", 1e-3),
        ("inf", float("inf")), ("on", "on"), ("a/b.json", "a/b.json"), ("0.25/100:0.01", {0: 0.25, 100: 0.01}),
        ("4/10:2/20:1", {0: 4, 10: 2, 20: 1}), ("9" * 5000, float("inf")),
    ],
)  # fmt: skip
def test_values(text: str, value: object) -> None:
    found = parse_value(text)
    assert found == value and type(found) is type(value)
    assert parse_value(show_value(found)) == value


def test_requests() -> None:
    assert parse_request("topk") == Request(name="topk", params={})
    found = parse_request("my/own.cll:ratio=0.5,strategy=allgather")
    assert found == Request(name="my/own.cll", params={"ratio": 0.5, "strategy": "allgather"})
    assert found.label == "my/own.cll ratio=0.5 strategy=allgather"


@pytest.mark.parametrize("text", ["", ":a=1", "topk:a", "topk:a=", "topk:=1", "topk:a=1,a=2", "topk:a=1,,b=2"])
def test_requests_that_mean_nothing(text: str) -> None:
    with pytest.raises(CompllError):
        parse_request(text)


def test_digits_are_split_without_overlap() -> None:
    found = data.digits()
    assert len(found.train_targets) + len(found.test_targets) == 1797
    train = {bytes(row.numpy().tobytes()) for row in found.train_inputs}
    assert sum(bytes(row.numpy().tobytes()) in train for row in found.test_inputs) <= 2  # few digits occur twice


def test_text_windows_are_followed_by_their_target() -> None:
    found = data.text()
    assert torch.equal(found.train_inputs[1][-1].long(), found.train_targets[0])
    assert torch.equal(found.train_inputs[1][:-1], found.train_inputs[0][1:])
    assert int(found.train_inputs.max()) < 96


def test_fashion_mnist_is_read_from_idx_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data, "FASHION_FOLDERS", (tmp_path / "none", tmp_path))
    images = torch.arange(2 * 3 * 4, dtype=torch.uint8).reshape(2, 3, 4)
    labels = torch.tensor([7, 1], dtype=torch.uint8)
    for part in ("train", "t10k"):
        for name, array in (("images-idx3", images), ("labels-idx1", labels)):
            extents = b"".join(n.to_bytes(4, "big") for n in array.shape)
            content = bytes([0, 0, 8, array.dim()]) + extents + array.numpy().tobytes()
            (tmp_path / f"{part}-{name}-ubyte.gz").write_bytes(gzip.compress(content))
    found = data.fashion_mnist()
    assert torch.equal(found.train_inputs, images) and found.test_targets.tolist() == [7, 1]


def test_fashion_mnist_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data, "FASHION_FOLDERS", (tmp_path / "none",))
    with pytest.raises(CompllError, match="apt install dataset-fashion-mnist"):
        data.fashion_mnist()


def test_smoothing_starts_at_the_first_loss() -> None:
    assert smooth([2.0, 2.0, 2.0]) == pytest.approx([2.0] * 3)
    assert smooth([1.0, 0.0])[-1] == pytest.approx(0.9)


@pytest.mark.dist
def test_train_writes_table_json_and_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report, picture = tmp_path / "out.json", tmp_path / "out.png"
    wanted = ["topk:ratio=0.05", "dgc:ratio=0.25/5:0.01", "dense-bf16", "powersgd-hook:rank=1"]
    options = [text for compressor in wanted for text in ("--compressor", compressor)]
    with pytest.raises(SystemExit) as end:
        main(["train", "--workers", "2", "--steps", "12", *options, "--json", str(report), "--plot", str(picture)])
    assert not end.value.code
    found = json.loads(report.read_text())
    assert found["task"] == "digits" and found["workers"] == 2
    runs = found["runs"]
    assert [run["compressor"] for run in runs] == ["dense", "topk", "dgc", "dense-bf16", "powersgd-hook"]
    assert {
        "compressor", "params", "metric", "value", "bytes_per_step", "ratio", "step_ms", "encode_ms", "comm_ms",
        "decode_ms", "overlap",
    } <= runs[0].keys()  # fmt: skip
    dense = sum(p.numel() for p in TASKS["digits"].model().parameters())
    assert runs[0]["bytes_per_step"] == 4 * dense and runs[3]["bytes_per_step"] == 2 * dense
    assert runs[1]["ratio"] > 5 and runs[1]["params"] == {"ratio": 0.05}
    assert runs[2]["momentum"] == 0 and runs[1]["momentum"] > 0
    assert len({run["losses"][0] for run in runs}) == 1  # same weights, same examples
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert "dgc ratio=0.25/5:0.01" in capsys.readouterr().out


def job(requests: tuple[Request, ...], steps: int) -> Job:
    return Job(task="digits", data=data.digits(), requests=requests, workers=2, seed=0, steps=steps, store="")


@pytest.mark.dist
def test_same_seed_gives_the_same_training() -> None:
    dense = Request(name="dense", params={})
    events = [e for e in run_job(job((dense, dense), 8)) if isinstance(e, Run)]
    assert events[0].losses == events[1].losses and events[0].value == events[1].value


@pytest.mark.dist
def test_failing_worker_ends_the_job_and_says_where() -> None:
    broken = Request(name="powersgd-hook", params={"rank": "many"})
    with pytest.raises(CompllError, match="failed in run `powersgd-hook rank=many`"):
        list(run_job(job((Request(name="dense", params={}), broken), 4)))
    assert multiprocessing.active_children() == []


@pytest.mark.dist
def test_killed_worker_ends_the_job_and_says_which() -> None:
    with pytest.raises(CompllError, match="worker 1 of 2 was ended by SIGKILL"):
        for event in run_job(job((Request(name="dense", params={}),), 100_000)):
            if isinstance(event, Progress):
                victim = next(p for p in multiprocessing.active_children() if p.name == "worker 1")
                os.kill(victim.pid or 0, signal.SIGKILL)
    assert multiprocessing.active_children() == []


@pytest.mark.dist
def test_caller_that_stops_leaves_no_process() -> None:
    events = run_job(job((Request(name="dense", params={}),), 100_000))
    assert isinstance(next(events), Progress)
    events.close()
    assert multiprocessing.active_children() == []
