"""`compll profile`, `plan` and `simulate`: what is typed, written and refused, and that a plan follows its profile."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import compll
from compll.cli import main
from compll.cli.plan import _show
from compll.cli.planning.bandwidth import parse_bandwidth, show_bandwidth
from compll.cli.planning.compressors import label_in
from compll.cli.planning.measure import Wanted, fingerprint
from compll.cli.planning.models import job_of, named_shapes
from compll.cli.planning.simulation import Row, World
from compll.cli.training.request import Request
from compll.diagnostics import CompllError
from compll.runtime.load import read_source
from compll.runtime.plan import read_plan
from compll.runtime.planning.links import COLLECTIVES, Link, Linked
from compll.runtime.planning.profile import Measured, Profile, read_profile
from compll.runtime.planning.samples import Sample, measured_topology

SIZES = (4096, 65_536, 1 << 20, 1 << 22)
#: Seconds by element: a compressor on an accelerator.
SLOPES = {"encode": 2e-11, "decode": 1e-11, "decode_add": 1e-12}


def samples(slopes: dict[str, float]) -> tuple[Sample, ...]:
    return tuple(Sample(operation=n, size=x, seconds=1e-5 + slope * x) for n, slope in slopes.items() for x in SIZES)


@pytest.fixture
def profile(tmp_path: Path) -> Path:
    """Of resnet50 on four workers at 1 Gbit/s."""
    net = Linked(ranks=4, link=Link(latency=2e-5, bandwidth=1.25e8))
    collectives = [Sample(operation=n, size=x, seconds=getattr(net, n)(x)) for n in COLLECTIVES for x in SIZES]
    measured = {}
    for label, name, params in (("topk ratio=0.01", "topk", {"ratio": 0.01}), ("onebit", "onebit", {})):
        text = compll.load(name).source_hash
        measured[label] = Measured(name=name, params=params, source_hash=text, samples=samples(SLOPES))
    wanted = Wanted(model="resnet50", requests=(Request(name="topk", params={"ratio": 0.01}),), workers=4)
    job = job_of("resnet50")
    made = Profile(
        fingerprint=fingerprint(wanted, job), model="resnet50", workers=4, node_size=1, job=job,
        samples=(*samples({"copy": 1e-12, "cast": 1e-12}), *collectives), compressors=measured,
    )  # fmt: skip
    path = tmp_path / "profile.json"
    path.write_text(json.dumps(made.to_json()))
    assert read_profile(path) == replace(made, job=read_profile(path).job)
    return path


def run(*arguments: object) -> int:
    with pytest.raises(SystemExit) as end:
        main([str(argument) for argument in arguments])
    return int(end.value.code or 0)


def report(tmp_path: Path, *arguments: object) -> Any:
    path = tmp_path / "report.json"
    assert run(*arguments, "--json", path) == 0
    return json.loads(path.read_text())


@pytest.mark.parametrize(
    ("text", "bits"), [("1gbit", 1e9), ("100mbit", 1e8), ("2.5Gbit", 2.5e9), ("56kbit", 56e3), ("1tbit", 1e12)]
)
def test_bandwidths(text: str, bits: float) -> None:
    assert parse_bandwidth(text) == bits
    assert parse_bandwidth(show_bandwidth(bits).replace(" ", "").removesuffix("/s")) == bits


@pytest.mark.parametrize("text", ["", "1", "gbit", "0gbit", "-1gbit", "1gb", "1 gbit/s"])
def test_bandwidths_that_mean_nothing(text: str) -> None:
    with pytest.raises(CompllError, match="a bandwidth needs the form"):
        parse_bandwidth(text)


def test_simulate_has_the_rows_asked_for(tmp_path: Path, profile: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = report(
        tmp_path, "simulate", "--profile", profile, "--workers", "8,64", "--bandwidth", "100mbit,1gbit,400gbit"
    )
    rows = found["rows"]
    assert [(r["model"], r["workers"], r["bandwidth"]) for r in rows] == [
        ("resnet50", n, b) for n in (8, 64) for b in ("100mbit", "1gbit", "400gbit")
    ]
    names = {"dense-fp32", "dense-bf16", *(f"{c}/{s}" for c in ("topk", "onebit") for s in ("allgather", "ps", "ring"))}
    for row in rows:
        assert row["step_ms"].keys() == names and row["step_ms"][row["best"]] == min(row["step_ms"].values())
    assert "/" in rows[0]["best"] and rows[2]["best"].startswith("dense-")
    for name in names:
        for slow, fast in ((rows[0], rows[1]), (rows[1], rows[2]), (rows[3], rows[4])):
            assert fast["step_ms"][name] <= slow["step_ms"][name]
    ends = {(e["workers"], e["compressor"]): e["bits_per_second"] for e in found["break_even"]}
    assert ends.keys() == {(n, c) for n in (8, 64) for c in ("topk", "onebit")}
    assert 1e9 < ends[8, "topk"] < 400e9 and {e["pays"] for e in found["break_even"]} == {"below"}
    assert "resnet50, 8 workers: topk pays up to" in capsys.readouterr().out


def test_the_end_of_paying_is_where_it_is_said(tmp_path: Path, profile: Path) -> None:
    arguments = ("simulate", "--profile", profile, "--workers", 8, "--compressor", "topk:ratio=0.01", "--bandwidth")
    end = report(tmp_path, *arguments, "1gbit")["break_even"][0]["bits_per_second"]
    around = [f"{end / 1e6 * factor:.3f}mbit" for factor in (0.99, 1.05)]
    below, above = report(tmp_path, *arguments, ",".join(around))["rows"]
    assert "topk/" in below["best"] and "dense" in above["best"]


def test_at_the_reference_volume_the_formulas_of_volume_decide(tmp_path: Path, profile: Path) -> None:
    """At 1 Gbit/s and 1024 workers an all-gather of 1 % moves more than a bf16 all-reduce, sharing the sum does not."""
    (row,) = report(tmp_path, "simulate", "--profile", profile, "--workers", 1024, "--bandwidth", "1gbit")["rows"]
    assert row["step_ms"]["topk/allgather"] > row["step_ms"]["dense-bf16"] > row["step_ms"]["topk/ps"]


def test_a_network_that_was_measured_is_priced_as_measured() -> None:
    fast, slow = (Linked(ranks=4, link=Link(latency=2e-5, bandwidth=b)) for b in (1.2e8, 6e7))
    made = [Sample(operation="all_reduce", size=x, seconds=fast.all_reduce(x)) for x in SIZES]
    made += [Sample(operation="all_gather", size=x, seconds=slow.all_gather(x)) for x in SIZES]
    measured = measured_topology(made, 4)
    world = World(latency=2e-5, measured=measured)
    assert world.topology(4, 1e9) is measured
    others = [world.topology(*asked) for asked in ((8, 1e9), (4, 1e8), (4, 2e9))]
    others.append(World(latency=2e-5, node_size=2, measured=measured).topology(4, 1e9))
    assert all(isinstance(topology.everyone, Linked) for topology in others)


def test_the_usual_latency_is_the_measured_one(tmp_path: Path, profile: Path) -> None:
    arguments = ("simulate", "--profile", profile, "--workers", 8, "--bandwidth", "1gbit")
    asked = ((), ("--latency-us", 20), ("--latency-us", 25))
    steps = [report(tmp_path, *arguments, *words)["rows"][0]["step_ms"] for words in asked]
    assert steps[0] == pytest.approx(steps[1]) and steps[0] != pytest.approx(steps[2])


def test_nodes_add_a_strategy(tmp_path: Path, profile: Path) -> None:
    arguments = ("simulate", "--profile", profile, "--workers", 64, "--bandwidth", "1gbit", "--node-size", 8)
    (row,) = report(tmp_path, *arguments)["rows"]
    assert "topk/hierarchical" in row["step_ms"]


def test_without_a_profile_simulate_measures(tmp_path: Path) -> None:
    found = report(
        tmp_path, "simulate", "--workers", "4", "--bandwidth", "1mbit", "--largest", 4096, "--threads", 1,
        "--compute-ms", 1, "--compressor", "onebit",
    )  # fmt: skip
    (row,) = found["rows"]
    assert row["best"].startswith("onebit/") and row["step_ms"]["dense-fp32"] > 1e5


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--workers", "4,x"), "--workers needs whole numbers from 1, got `x`"),
        (("--workers", "6", "--node-size", "4"), "6 workers cannot be divided into nodes of 4"),
        (("--bandwidth", "fast"), "a bandwidth needs the form"),
        (("--compressor", "topk:ratio=0.5"), "the profile has no `topk:ratio=0.5`; it has `topk:ratio=0.01`, `onebit`"),
        (("--model", "nosuch"), "a model needs one of bert-large, resnet50, digits"),
    ],
)  # fmt: skip
def test_simulate_refuses(
    arguments: tuple[str, ...], message: str, profile: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("simulate", "--profile", profile, *arguments) == 1
    assert message in capsys.readouterr().err


def test_a_compressor_of_a_profile_is_named_as_far_as_it_has_to_be(profile: Path) -> None:
    known = read_profile(profile)
    (one,) = (m for m in known.compressors.values() if m.name == "topk")
    several = replace(known, compressors={**known.compressors, "topk ratio=0.1": replace(one, params={"ratio": 0.1})})
    for text in ("topk", "topk:ratio=0.01", "topk:ratio=1e-2", "topk ratio=0.01"):
        assert label_in(known, text) == "topk ratio=0.01"
    assert label_in(several, "topk:ratio=0.1") == "topk ratio=0.1"
    with pytest.raises(CompllError, match="several that `topk` could be: `topk:ratio=0.01`, `topk:ratio=0.1`$"):
        label_in(several, "topk")
    plain = replace(several, compressors={**several.compressors, "topk": replace(one, params={})})
    assert label_in(plain, "topk") == "topk"


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_device_that_is_not_there_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("simulate", "--device", "cuda") == 1
    said = capsys.readouterr().err
    assert said.startswith("error: backend `cuda` is not there") and said.count("\n") == 1


def test_equal_steps_prefer_dense() -> None:
    row = Row(model="m", workers=1, bandwidth="1gbit", steps={"dense-fp32": 1.0, "dense-bf16": 1.0, "c/ps": 1.0})
    assert row.best == "dense-fp32"


def test_plan_follows_the_network(tmp_path: Path, profile: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "plan.json"
    slow = report(tmp_path, "plan", profile, "--compressor", "topk:ratio=0.01", "-o", path, "--explain")
    said = capsys.readouterr().out
    assert all(name in said for name, _ in named_shapes("resnet50")[:3]) and "would take" in said
    assert slow["step_ms"] < min(slow["plain_ms"].values()) and len(slow["reasons"]) == 161
    plan = read_plan(path)
    plan.check_fits({g.name: g.compressible for g in job_of("resnet50").gradients})
    assert plan.routes["layer4.0.conv2.weight"].compressed and not plan.routes["fc.bias"].compressed
    other = ("--bandwidth", "400gbit", "--workers", 8)
    fast = report(tmp_path, "plan", profile, "--compressor", "topk:ratio=0.01", *other)
    assert fast["step_ms"] < slow["step_ms"]
    assert run("plan", profile, "--bandwidth", "400gbit") == 0
    assert "do not compress here" in capsys.readouterr().out


def test_measured_nodes_stay_as_fast_on_other_links(tmp_path: Path, profile: Path) -> None:
    content = json.loads(profile.read_text())
    near = Linked(ranks=2, link=Link(latency=1e-6, bandwidth=1e11))
    content["samples"] += [["all_to_all", "node", x, near.all_to_all(x)] for x in SIZES]
    profile.write_text(json.dumps({**content, "node_size": 2}))
    arguments = ("plan", profile, "--bandwidth", "100mbit")
    assert "hierarchical" in report(tmp_path, *arguments)["gradients"]


def test_a_plan_of_another_model_is_refused_by_name(
    tmp_path: Path, profile: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "plan.json"
    assert run("plan", profile, "-o", path) == 0
    assert run("plan", "--check", path, "--model", "resnet50") == 0
    assert run("plan", "--check", path, "--model", "bert-large") == 1
    assert "the plan has no `embeddings." in capsys.readouterr().err
    content = json.loads(path.read_text())
    content["gradients"]["fc.bias"]["strategy"] = "ps"
    path.write_text(json.dumps(content))
    assert run("plan", "--check", path, "--model", "resnet50") == 1
    assert "the plan compresses `fc.bias`" in capsys.readouterr().err
    content["gradients"]["fc.bias"] = {"strategy": "dense", "part": 2}
    path.write_text(json.dumps(content))
    assert run("plan", "--check", path, "--model", "resnet50") == 1
    assert "`fc.bias` needs a route with `strategy` and `parts` alone, got {" in capsys.readouterr().err


@pytest.mark.parametrize("text", [b"[" * 100_000, b"\xff\xfe", b"{"])
def test_what_is_no_json_is_said_to_be_none(
    text: bytes, profile: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "text.json"
    path.write_bytes(text)
    assert run("plan", "--check", path, "--model", "resnet50") == 1
    assert run("plan", path) == 1
    assert capsys.readouterr().err.count("is no JSON") == 2


@pytest.mark.parametrize("arguments", [(), ("--check", "plan.json")])
def test_plan_needs_something_to_go_by(arguments: tuple[str, ...]) -> None:
    assert run("plan", *arguments) == 2


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("version", 1, "a profile needs version 2, got 1"), ("gradients", None, "something unexpected"),
        ("fingerprint", None, "something unexpected"),
        ("workers", "many", "something unexpected"), ("samples", [["sort", "all", 1, 1]], "got `sort` of `all`"),
    ],
)  # fmt: skip
def test_a_faulty_profile_is_refused(
    key: str, value: object, message: str, profile: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    profile.write_text(json.dumps({**json.loads(profile.read_text()), key: value}))
    assert run("plan", profile) == 1
    assert message in capsys.readouterr().err


def test_a_profile_of_another_text_is_refused(profile: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content = json.loads(profile.read_text())
    content["compressors"]["onebit"]["source_hash"] = "0"
    del content["backward_s"]
    profile.write_text(json.dumps(content))
    assert run("plan", profile) == 1
    assert "a profile needs 'backward_s'" in capsys.readouterr().err
    profile.write_text(json.dumps({**content, "backward_s": 1.0}))
    assert run("plan", profile, "--compressor", "onebit") == 1
    assert "the text of `onebit` has changed since it was profiled" in capsys.readouterr().err


def test_a_profile_of_elsewhere_is_said_to_be_so(profile: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("plan", profile) == 0
    assert capsys.readouterr().err == ""
    content = json.loads(profile.read_text())
    content["fingerprint"]["torch"] = "1.0"
    profile.write_text(json.dumps(content))
    assert run("plan", profile) == 0
    assert "note: the profile is of another torch: 1.0, here it is" in capsys.readouterr().err


def test_programs_of_equal_name_are_told_apart(tmp_path: Path) -> None:
    own = tmp_path / "own.cll"
    own.write_text(read_source("onebit").text)
    wanted = ["--compressor", own, "--compressor", "topk:ratio=0.1", "--compressor", "topk:ratio=0.2"]
    arguments = ["simulate", "--workers", 4, "--bandwidth", "1gbit", "--largest", 4096, "--threads", 1, *wanted]
    (row,) = report(tmp_path, *arguments)["rows"]
    assert {"onebit/ps", "topk ratio=0.1/ps", "topk ratio=0.2/ps"} <= row["step_ms"].keys()


def test_programs_have_the_strategies_that_they_allow(tmp_path: Path) -> None:
    wanted = ["--compressor", "randomk", "--compressor", "powersgd", "--compute-ms", 1]
    arguments = ["simulate", "--workers", 4, "--bandwidth", "1gbit", "--largest", 4096, "--threads", 1, *wanted]
    (row,) = report(tmp_path, *arguments)["rows"]
    assert {"randomk/allreduce", "randomk/ps", "powersgd/rounds"} <= row["step_ms"].keys()
    assert "powersgd/ps" not in row["step_ms"]


OWN_MODEL = """
import torch
def tiny():
    model = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.Linear(32, 4))
    return model, torch.ones(2, 64), lambda model, batch: model(batch).sum()
def nothing():
    return 1, 2, 3
"""


def test_jobs_of_own_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_model.py").write_text(OWN_MODEL)
    monkeypatch.chdir(tmp_path)
    job = job_of("own_model:tiny", repeats=2)
    assert {g.name for g in job.gradients[:2]} == {"1.weight", "1.bias"}  # backward has the last layer first
    times = [g.ready_s for g in job.gradients]
    assert times == sorted(times) and 0 < times[0] <= times[-1] <= job.backward_s
    assert [g.name for g in job.gradients if g.compressible] == ["0.weight"]
    for text, message in (("own_model:nothing", "a torch module"), ("own_model:no", "returns"), ("no:x", "returns")):
        with pytest.raises(CompllError, match=message):
            job_of(text)


def test_made_up_times_go_backwards_through_the_layers() -> None:
    job = job_of("resnet50", compute_s=0.3)
    assert job.gradients[0].name == "fc.bias" and job.gradients[-1].name == "conv1.weight"
    times = [g.ready_s for g in job.gradients]
    assert times == sorted(times) and times[0] > 0.1 and times[-1] == pytest.approx(0.3)
    assert job.nbytes == 102_228_128 and len(job.buckets) == 5


@pytest.mark.dist
def test_profile_measures_with_several_workers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "profile.json"
    arguments = ("--workers", 2, "--largest", 4096, "--repeats", 1, "--compressor", "onebit", "-o", path)
    assert run("profile", "--model", "digits", *arguments) == 0
    assert "digits: 6 gradients, 50,826 elements" in capsys.readouterr().out
    found = read_profile(path)
    assert found.workers == 2 and len(found.job.gradients) == 6 and found.job.backward_s > 0
    assert {s.operation for s in found.samples} == {"copy", "cast", "sharing", "crowding", *COLLECTIVES}
    each = {"encode_each", "decode_each", "task"}
    assert {s.operation for s in found.compressors["onebit"].samples} == {"encode", "decode", "decode_add", *each}
    assert all(s.seconds > 0 for s in found.samples)
    assert run("plan", path, "-o", tmp_path / "plan.json") == 0
    assert run("plan", "--check", tmp_path / "plan.json", "--model", "digits") == 0
    assert run("train", "--workers", 2, "--steps", 3, "--compressor", f"onebit:plan={tmp_path / 'plan.json'}") == 0


@pytest.mark.dist
def test_profile_measures_in_the_group_of_torchrun(tmp_path: Path) -> None:
    path = tmp_path / "profile.json"
    launch = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", str(free_port())]
    wanted = ["--largest", "4096", "--repeats", "1", "--compressor", "onebit", "-o", str(path)]
    done = subprocess.run([*launch, "-m", "compll", "profile", *wanted], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("written to") == 1 and read_profile(path).workers == 2


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--compressor", "nosuch"), "no built-in compressor `nosuch`"),
        (("--model", "digits", "--compute-ms", "5"), "the times of model `digits` are measured"),
        (("--workers", "3", "--node-size", "2"), "3 workers cannot be divided into nodes of 2"),
    ],
)
def test_profile_refuses_before_any_process_starts(
    arguments: tuple[str, ...], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("profile", *arguments, "-o", tmp_path / "p.json") == 1
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(("bf16_ms", "dense_ms", "said"), [
    (3.0, 9.0, "plain DDP with its bf16 hook is as fast or faster: do not compress here"),
    (3.0, 4.0, "plain DDP is as fast or faster: do not compress here"),
    (6.0, 9.0, ""),
])  # fmt: skip
def test_which_plain_way_is_faster_is_said(
    capsys: pytest.CaptureFixture[str], bf16_ms: float, dense_ms: float, said: str
) -> None:
    plain = {"dense": dense_ms, "dense-bf16": bf16_ms}
    _show({"gradients": {"ps": 1}, "step_ms": 5.0, "exposed_ms": 1.0, "overlap": 0.0, "plain_ms": plain})
    assert [line for line in capsys.readouterr().out.splitlines() if "do not compress" in line] == [said] * bool(said)
