"""`compll trace` on a short job."""

import json
from pathlib import Path

import pytest

from compll.cli.app import run


def test_every_rank_and_task_is_in_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "trace.json"
    with pytest.raises(SystemExit) as ended:
        run(["trace", "--compressor", "topk:strategy=ps", "--steps", "3", "-o", str(path)])
    assert ended.value.code == 0, capsys.readouterr()
    events = [e for e in json.loads(path.read_text())["traceEvents"] if e["ph"] in "Xb"]
    assert {e["pid"] for e in events} == {0, 1}
    assert {e["name"].split()[0] for e in events} == {"backward", "encode", "send", "recv", "merge", "decode"}
    assert {e["args"]["step"] for e in events} == {0, 1, 2}
    weights = {name for e in events if e["cat"] == "compute" for name in e["args"]["gradients"]}
    assert {"1.weight", "3.weight"} <= weights


def test_a_baseline_has_no_timeline(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        run(["trace", "--compressor", "dense", "-o", "never.json"])
    assert ended.value.code == 2
    assert "needs a program, got the baseline `dense`" in " ".join(capsys.readouterr().err.replace("│", " ").split())
