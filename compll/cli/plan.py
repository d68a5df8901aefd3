"""`compll plan`: from a profile to the route of every gradient; or whether a plan fits a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Optional

import typer

from compll.cli.arguments import Json
from compll.cli.output import console, write_json
from compll.cli.planning.bandwidth import parse_bandwidth
from compll.cli.planning.compressors import label_in, profiled
from compll.cli.planning.measure import show_differences
from compll.cli.planning.models import job_of
from compll.cli.planning.simulation import World
from compll.cli.planning.tables import reasons_table
from compll.cli.profile import MinNumel
from compll.diagnostics import CompllError
from compll.runtime.plan import DENSE, Plan, read_plan
from compll.runtime.planning.costs import Topology
from compll.runtime.planning.explain import explain
from compll.runtime.planning.links import link_of
from compll.runtime.planning.prediction import Predictor
from compll.runtime.planning.profile import Profile, read_profile
from compll.runtime.planning.samples import measured_topology
from compll.runtime.planning.search import search


def plan(
    profile: Annotated[Optional[Path], typer.Argument(metavar="PROFILE", help="What compll profile wrote.")] = None,
    compressor: Annotated[
        Optional[str], typer.Option(metavar="NAME[:key=value,...]", help="One of the profile's; default: its first.")
    ] = None,
    output: Annotated[Optional[Path], typer.Option("--output", "-o", metavar="FILE", help="Write the plan.")] = None,
    why: Annotated[bool, typer.Option("--explain", help="Show for each gradient what the other ways cost.")] = False,
    workers: Annotated[Optional[int], typer.Option(min=1, help="Another number than was measured.")] = None,
    bandwidth: Annotated[Optional[str], typer.Option(metavar="RATE", help="25gbit. Default: as measured.")] = None,
    check: Annotated[Optional[Path], typer.Option(metavar="PLAN", help="Only say whether this plan fits.")] = None,
    model: Annotated[Optional[str], typer.Option(help="What --check is about, as for profile.")] = None,
    min_numel: MinNumel = 1024,
    json: Json = None,
) -> None:
    """Find the plan with the shortest predicted step: which gradients to compress, by which strategy, in how many
    parts. For `compll.attach(ddp, ..., plan=FILE)`."""
    if check is not None:
        _check(check, model, min_numel)
        return
    if profile is None:
        raise typer.BadParameter("needs a profile, or --check with a plan", param_hint="PROFILE")
    known = read_profile(profile)
    show_differences(known)
    predictor, strategies = _predictor(known, compressor, workers, bandwidth)
    found = search(predictor, strategies)
    reasons = list(explain(predictor, found, strategies)) if why else []
    if why:
        console().print(reasons_table(reasons, f"{known.model}: routes"))
    report = {**_summary(predictor, found), "reasons": [reason.as_json() for reason in reasons]}
    _show(report)
    write_json(output, {**found.to_json(), "fingerprint": dict(known.fingerprint)})
    write_json(json, {**report, "plan": found.to_json()})


def _check(path: Path, model: str | None, min_numel: int) -> None:
    """Raise CompllError, naming a gradient, unless the plan fits."""
    if model is None:
        raise typer.BadParameter("--check needs a model", param_hint="--model")
    job = job_of(model, min_numel=min_numel, repeats=1)
    read_plan(path).check_fits({g.name: g.compressible for g in job.gradients})
    console().print(f"{path} fits {model}: a route for each of {len(job.gradients)} gradients")


def _predictor(
    known: Profile, compressor: str | None, workers: int | None, bandwidth: str | None
) -> tuple[Predictor, tuple[str, ...]]:
    if not known.compressors:
        raise CompllError("the profile has no compressor")
    label = label_in(known, compressor) if compressor else next(iter(known.compressors))
    candidate = profiled(label, known.compressors[label])
    topology = _topology(known, workers, bandwidth)
    return candidate.predictor(known.job, known.samples, topology), candidate.strategies(topology)


def _topology(known: Profile, workers: int | None, bandwidth: str | None) -> Topology:
    """As measured; another number of workers or another bandwidth is on links, of the measured latency."""
    measured = measured_topology(known.samples, known.workers, known.node_size)
    if bandwidth is None and workers in (None, known.workers):
        return measured
    if known.workers == 1:
        raise CompllError("the profile of one worker says nothing of links: profile with --workers of 2 or more")
    link, inside = link_of(measured.everyone), link_of(measured.inside)
    bits = parse_bandwidth(bandwidth) if bandwidth else 8 * link.bandwidth
    world = World(latency=link.latency, node_size=known.node_size, inside=inside, measured=measured)
    return world.topology(workers or known.workers, bits)


def _summary(predictor: Predictor, found: Plan) -> dict[str, Any]:
    prediction = predictor.predict(found.routes)
    counts: dict[str, int] = {}
    for route in found.routes.values():
        counts[route.strategy] = counts.get(route.strategy, 0) + 1
    return {
        "step_ms": 1e3 * prediction.step_s, "exposed_ms": 1e3 * prediction.exposed_s, "overlap": prediction.overlap,
        "plain_ms": {name: 1e3 * predictor.plain(name).step_s for name in DENSE}, "gradients": counts,
    }  # fmt: skip


def _show(report: dict[str, Any]) -> None:
    out = console()
    routes = ", ".join(f"{count} {name}" for name, count in sorted(report["gradients"].items()))
    out.print(f"routes: {routes}")
    exposed = f"{report['exposed_ms']:.2f} ms of it after backward, {report['overlap']:.0%} of the exchange hidden"
    out.print(f"predicted step: {report['step_ms']:.2f} ms, {exposed}")
    plain = report["plain_ms"]
    out.print(f"plain DDP: {plain['dense']:.2f} ms; with its bf16 hook: {plain['dense-bf16']:.2f} ms")
    if min(plain.values()) <= report["step_ms"]:
        faster = "with its bf16 hook " if plain["dense"] > report["step_ms"] else ""
        out.print(f"plain DDP {faster}is as fast or faster: do not compress here")
