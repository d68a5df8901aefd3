"""`compll doctor`: what is installed, which backends work, and the way out for what does not."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib import metadata

import typer
from rich.table import Table

from compll import __version__
from compll.cli.arguments import Json
from compll.cli.output import console, write_json
from compll.diagnostics import CompllError
from compll.runtime.cache import cache_directory
from compll.runtime.devices import open_device
from compll.runtime.specialized import BACKENDS

#: Distributions whose versions matter, and whether compll works without them.
DISTRIBUTIONS = {
    "torch": "needed", "numpy": "needed", "lark": "needed", "jinja2": "needed", "scikit-learn": "needed",
    "matplotlib": "needed", "cupy-cuda13x": "for the GPU", "cupy-cuda12x": "for the GPU",
    "nvidia-cuda-nvrtc": "to check CUDA text without a GPU", "cuda-bindings": "to check CUDA text without a GPU",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """`ok` is None for something that is merely not there."""

    topic: str
    name: str
    ok: bool | None
    detail: str


def doctor(json: Json = None) -> None:
    """Say what is installed and which backends work; exits with 1 where no compiled backend does."""
    findings = [*_versions(), *_backends(), _cache()]
    table = Table(title=f"compll {__version__}")
    for heading in ("", "what", "state", "detail"):
        table.add_column(heading, overflow="fold")
    for finding in findings:
        state = {True: "ok", False: "does not work", None: "-"}[finding.ok]
        table.add_row(finding.topic, finding.name, state, finding.detail)
    console().print(table)
    ok = all(f.ok is not False for f in findings if f.topic != "backend") and _usable(findings)
    write_json(json, {"ok": ok, "version": __version__, "findings": [asdict(f) for f in findings]})
    raise typer.Exit(0 if ok else 1)


def _usable(findings: list[Finding]) -> bool:
    return any(f.ok for f in findings if f.topic == "backend" and f.name in ("cpu", "cuda"))


def _versions() -> Iterator[Finding]:
    yield Finding(topic="system", name="python", ok=True, detail=f"{platform.python_version()}, {platform.machine()}")
    for name, why in DISTRIBUTIONS.items():
        try:
            yield Finding(topic="package", name=name, ok=True, detail=metadata.version(name))
        except metadata.PackageNotFoundError:
            missing = False if why == "needed" else None
            yield Finding(topic="package", name=name, ok=missing, detail=f"not installed ({why})")


def _backends() -> Iterator[Finding]:
    for name in BACKENDS:
        if name == "auto":
            continue
        try:
            open_device(name)
            yield Finding(topic="backend", name=name, ok=True, detail="")
        except CompllError as problem:
            yield Finding(topic="backend", name=name, ok=False, detail=str(problem))


def _cache() -> Finding:
    folder = cache_directory()
    probe = folder / ".compll-doctor"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe.write_text("")
        probe.unlink()
    except OSError as problem:
        advice = "set COMPLL_CACHE to a folder that can be written"
        return Finding(topic="cache", name="folder", ok=False, detail=f"{folder}: {problem.strerror}; {advice}")
    return Finding(topic="cache", name="folder", ok=True, detail=str(folder))
