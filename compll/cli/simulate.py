"""`compll simulate`: the step that some number of workers on links of some speed would have, and what would be best."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import Annotated, Optional

import torch
import typer
from rich.console import Console

from compll import algorithms
from compll.cli.arguments import Json
from compll.cli.output import console, write_json
from compll.cli.planning.bandwidth import parse_bandwidth, show_bandwidth
from compll.cli.planning.compressors import Candidate, label_in, profiled
from compll.cli.planning.measure import LARGEST, Wanted, measured, show_differences
from compll.cli.planning.models import job_of
from compll.cli.planning.simulation import Row, Simulation, World
from compll.cli.planning.tables import simulation_table
from compll.cli.profile import Compressors, ComputeMs, MinNumel
from compll.cli.training.request import parse_request
from compll.diagnostics import CompllError
from compll.runtime.planning.jobs import Job
from compll.runtime.planning.links import Link, link_of
from compll.runtime.planning.profile import Profile, read_profile
from compll.runtime.planning.samples import measured_topology

#: Seconds a message between machines on Ethernet, where none was measured and none is given.
LATENCY_US = 25.0
INSIDE = "2400gbit"
INSIDE_LATENCY_S = 5e-6


class Device(str, Enum):
    cpu = "cpu"
    cuda = "cuda"


def simulate(
    workers: Annotated[str, typer.Option(metavar="N,...", help="Numbers of workers.")] = "8,64,1024",
    bandwidth: Annotated[
        str, typer.Option(metavar="RATE,...", help="Links: 100mbit, 25gbit.")
    ] = "1gbit,25gbit,400gbit",
    model: Annotated[
        Optional[list[str]],
        typer.Option(metavar="MODEL|module:function", help="As for profile; repeat for several. Default: resnet50."),
    ] = None,
    compressor: Compressors = None,
    profile: Annotated[
        Optional[Path], typer.Option(metavar="FILE", help="What was measured; without one it is measured now.")
    ] = None,
    latency_us: Annotated[
        Optional[float],
        typer.Option(min=0.0, help=f"Of a message between workers. Default: as measured, or {LATENCY_US:g}."),
    ] = None,
    node_size: Annotated[int, typer.Option(min=1, help="Workers per node, which share its link.")] = 1,
    inside: Annotated[str, typer.Option(metavar="RATE", help="Links inside a node.")] = INSIDE,
    compute_ms: ComputeMs = None,
    min_numel: MinNumel = 1024,
    threads: Annotated[Optional[int], typer.Option(min=1, help="Of encoding, where it is measured now.")] = None,
    device: Annotated[Device, typer.Option(help="Where encoding is measured.")] = Device.cpu,
    largest: Annotated[int, typer.Option(min=1 << 12, help="Elements of the largest gradient measured.")] = LARGEST,
    json: Json = None,
) -> None:
    """Predict the step of plain DDP, of bf16 and of each compressor with each strategy; say up to which bandwidth
    compression pays."""
    counts = [_count(text, node_size) for text in workers.split(",")]
    speeds = {text: parse_bandwidth(text) for text in bandwidth.split(",")}
    near = Link(latency=INSIDE_LATENCY_S, bandwidth=parse_bandwidth(inside) / 8)
    known = read_profile(profile) if profile else _measured(compressor, threads, largest, device)
    show_differences(known)
    world = _world(known, latency_us, node_size, near if node_size > 1 else None)
    candidates = _candidates(known, compressor)
    rows, ends = [], []
    for name in model or ([known.model] if profile else ["resnet50"]):
        job = _job(known, name, compute_ms, min_numel)
        simulation = Simulation(job=job, shared=known.samples, candidates=candidates, world=world)
        rows += [
            Row(model=name, workers=n, bandwidth=text, steps=simulation.steps(n, bits))
            for n in counts
            for text, bits in speeds.items()
        ]
        ends += [(name, n, c.label, simulation.break_even(n, c.label)) for n in counts for c in candidates]
    console().print(simulation_table(rows))
    for line in map(_sentence, ends):
        console().print(line)
    write_json(json, {"rows": [row.as_json() for row in rows], "break_even": [_end_json(*end) for end in ends]})


def _world(profile: Profile, latency_us: float | None, node_size: int, inside: Link | None) -> World:
    several = profile.workers > 1
    measured = measured_topology(profile.samples, profile.workers, profile.node_size) if several else None
    usual = link_of(measured.everyone).latency if measured else LATENCY_US / 1e6
    latency = usual if latency_us is None else latency_us / 1e6
    return World(latency=latency, node_size=node_size, inside=inside, measured=measured)


def _count(text: str, node_size: int) -> int:
    if not text.strip().isdigit() or int(text) < 1:
        raise CompllError(f"--workers needs whole numbers from 1, got `{text}`")
    if int(text) > node_size and int(text) % node_size:
        raise CompllError(f"{text} workers cannot be divided into nodes of {node_size}")
    return int(text)


def _measured(compressor: Sequence[str] | None, threads: int | None, largest: int, device: Device) -> Profile:
    requests = tuple(parse_request(text) for text in compressor or algorithms.USUAL)
    wanted = Wanted(
        model="resnet50", requests=requests, threads=threads or torch.get_num_threads(), largest=largest,
        device=device.value,
    )  # fmt: skip
    with Console(stderr=True).status("no --profile: measuring encode and decode here"):
        return measured(wanted)


def _candidates(profile: Profile, compressor: Sequence[str] | None) -> list[Candidate]:
    """The compressors asked for, called by the names of their programs where these differ, else as typed."""
    labels = [label_in(profile, text) for text in compressor or ()] or list(profile.compressors)
    loaded = [profiled(label, profile.compressors[label]) for label in labels]
    names = [candidate.compressor.name for candidate in loaded]
    return [replace(c, label=name) if names.count(name) == 1 else c for c, name in zip(loaded, names, strict=True)]


def _job(profile: Profile, model: str, compute_ms: float | None, min_numel: int) -> Job:
    if model == profile.model and compute_ms is None and min_numel == 1024:
        return profile.job
    return job_of(model, compute_s=compute_ms and compute_ms / 1e3, min_numel=min_numel)


def _sentence(end: tuple[str, int, str, float | None]) -> str:
    model, workers, label, bits = end
    where = f"{model}, {workers} workers: {label}"
    if bits is None:
        return f"{where} never pays"
    if math.isinf(bits):
        return f"{where} pays at any bandwidth"
    return f"{where} pays up to {show_bandwidth(bits)} and stops paying above"


def _end_json(model: str, workers: int, label: str, bits: float | None) -> dict[str, object]:
    pays = "never" if bits is None else "always" if math.isinf(bits) else "below"
    return {"model": model, "workers": workers, "compressor": label, "pays": pays, "bits_per_second": bits}
