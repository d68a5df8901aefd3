"""Commands as a user types them: what they print, what they write, how they end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import compll
from compll.battery import Report
from compll.cli import main

GOOD = """// sends the sign and the mean magnitude
compressor signs {
    feedback residual;
    payload { scale: f32; code: u1[n]; }
    encode(g: f32[n]) {
        return { scale: mean(map(abs, g)), code: u1(map(|x| x >= 0.0 ? 1 : 0, g)) };
    }
    decode(p) -> f32[n] { return map(|q| q == 1 ? p.scale : -p.scale, p.code); }
}
"""
FAULTY = GOOD.replace("mean(map(abs, g))", "maen(map(abs, g))")
LYING = GOOD.replace("feedback residual;", "trait unbiased;")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with the programs above."""
    monkeypatch.chdir(tmp_path)
    for name, text in (("good", GOOD), ("faulty", FAULTY), ("lying", LYING)):
        Path(f"{name}.cll").write_text(text)
    return tmp_path


def run(*arguments: str) -> int:
    """The exit status of a command."""
    with pytest.raises(SystemExit) as end:
        main(arguments)
    return end.value.code or 0  # type: ignore[return-value]


def read(path: str) -> Any:
    return json.loads(Path(path).read_text())


def test_check_of_a_good_program(folder: Path) -> None:
    assert run("check", "good.cll", "--backend", "reference", "--json", "out.json") == 0
    report = read("out.json")
    assert report["ok"] is True and report["file"] == "good.cll" and report["compressor"] == "signs"
    assert report["backends"] == ["reference"]
    assert {"law", "backend", "ok", "detail"} <= report["laws"][0].keys()
    assert report["profile"]["bits_per_element"] == pytest.approx(1, abs=0.01)


def test_check_says_which_backends_it_left_out(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    nothing = Report(file="good.cll", compressor="signs", backends=(), laws=(), profile={})
    monkeypatch.setattr("compll.cli.check.run_battery", lambda *given, **named: nothing)
    assert run("check", "good.cll") == 0
    assert "not checked on emulator (slow, only by its name: --backend emulator)" in capsys.readouterr().out
    assert run("check", "good.cll", "--backend", "emulator") == 0
    assert "not checked" not in capsys.readouterr().out


def test_check_shows_the_broken_law_and_exits_with_1(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("check", "lying.cll", "--backend", "reference", "--json", "out.json") == 1
    assert [law["law"] for law in read("out.json")["laws"] if not law["ok"]] == ["unbiased"]
    assert "law unbiased is broken on reference" in capsys.readouterr().out


def test_check_of_several_files_writes_a_list(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("check", "faulty.cll", "good.cll", "--backend", "reference", "--json", "out.json") == 1
    assert [report["ok"] for report in read("out.json")] == [False, True]
    errors = capsys.readouterr().err.splitlines()
    column = FAULTY.splitlines()[5].index("maen") + 1
    assert errors[0].startswith(f"faulty.cll:6:{column}: error[E0")
    assert "mean" in errors[0] or any("mean" in line for line in errors)


def test_compile_gives_every_stage_as_text(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = {}
    for stage in ("ast", "ir", "opt", "plan", "source"):
        assert run("compile", "good.cll", "--emit", stage) == 0
        said[stage] = capsys.readouterr().out
    assert "Compressor" in said["ast"] and "f32" in said["ast"]
    assert "sweep" in said["ir"] and said["ir"] != said["opt"]
    assert "kernel" in said["plan"]
    assert 'extern "C"' in said["source"]


def test_compile_writes_to_a_folder(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("compile", "good.cll", "--target", "cuda", "-o", "made/here") == 0
    assert capsys.readouterr().out.strip() == "made/here/signs.cu"
    assert "__global__" in Path("made/here/signs.cu").read_text()


def test_explain_reports_costs(folder: Path) -> None:
    assert run("explain", "good.cll", "--shape", "64x32", "--json", "out.json") == 0
    report = read("out.json")
    assert report["payload_bytes"] == 4 + 64 * 32 // 8
    assert report["payload_bytes"] == compll.load("good.cll").payload_bytes((64, 32))
    assert {"function", "pattern", "name"} == report["kernels"][0].keys()
    assert report["bytes_per_element"] >= report["floor_bytes_per_element"] > 0
    assert report["passes"] >= 1 and report["traits"] == []
    assert all(1 <= len(function["launches"]) <= 3 for function in report["functions"].values())


def test_explain_takes_parameters(folder: Path) -> None:
    sizes = []
    for ratio in ("0.01", "0.1"):
        assert run("explain", "topk", "--param", f"ratio={ratio}", "--json", "out.json") == 0
        sizes.append(read("out.json")["payload_bytes"])
    assert sizes[1] > 5 * sizes[0]


def test_doctor_finds_the_reference_backend(folder: Path) -> None:
    run("doctor", "--json", "out.json")
    findings = {(f["topic"], f["name"]): f["ok"] for f in read("out.json")["findings"]}
    assert findings["backend", "reference"] is True and findings["package", "torch"] is True


@pytest.mark.parametrize(
    ("arguments", "status", "text"),
    [
        (("check", "missing.cll"), 1, "cannot read `missing.cll`"),
        (("check", "folder.cll"), 1, "cannot read `folder.cll`"),
        (("check", "binary.cll"), 1, "needs to be UTF-8 text"),
        (("check", "topkk"), 1, "did you mean `topk`?"),
        (("check", "good.cll", "--backend", "abacus"), 1, "backend needs one of"),
        (("check", "good.cll", "--param", "nosuch=1"), 1, "nosuch"),
        (("check", "good.cll", "--param", "nosuch"), 1, "needs the form key=value"),
        (("explain", "good.cll", "--shape", "4by4"), 1, "needs the form ROWSxCOLS"),
        (("explain", "good.cll", "--shape", "0x4"), 1, "no elements"),
        (("compile", "good.cll", "--target", "abacus"), 2, "abacus"),
        (("compile", "good.cll", "--target", "reference"), 1, "has no source"),
        (("compile", "good.cll", "-o", "good.cll/sub"), 1, "cannot write"),
        (("explain", "good.cll", "--json", "no/such/../../good.cll/x.json"), 1, "cannot write"),
        (("nosuch",), 2, "nosuch"),
        (("check",), 2, "FILE"),
        (("train", "--task", "chess"), 2, "digits"),
        (("train", "--compressor", "topk:ratio"), 1, "needs the form key=value"),
        (("train", "--compressor", "dense-bf16:x=1"), 1, "takes no parameters"),
        (("train", "--compressor", "topk:ratoi=1"), 1, "did you mean `ratio`?"),
    ],
)
def test_user_errors_are_one_clear_message(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], status: int, text: str
) -> None:
    Path("binary.cll").write_bytes(b"\xff\xfe\x00")
    Path("folder.cll").mkdir()
    assert run(*arguments) == status
    said = capsys.readouterr().err
    assert text in said and "Traceback" not in said
