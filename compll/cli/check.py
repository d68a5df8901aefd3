"""`compll check`: parse, type-check, and the contract battery on every backend that is there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Optional

import typer
from rich.table import Table

from compll.battery import LawResult, Report, run_battery
from compll.battery.sanitized import sanitized
from compll.cli.arguments import Json, Params, Programs
from compll.cli.output import console, show_error, show_warnings, write_json
from compll.cli.values import Value, parse_params
from compll.diagnostics import CompllError
from compll.runtime.devices import skipped_devices
from compll.runtime.devices.sanitizers import SANITIZERS
from compll.runtime.load import read_source
from compll.runtime.program import Program


def check(
    file: Programs,
    param: Params = None,
    backend: Annotated[Optional[list[str]], typer.Option(help="Check on this backend only; or several.")] = None,
    sanitize: Annotated[
        Optional[list[str]],
        typer.Option(
            metavar="|".join(SANITIZERS),
            help="Run the CUDA kernels on the CPU under a sanitizer too, in three orders of threads; repeat for more.",
        ),
    ] = None,
    json: Json = None,
) -> None:
    """Check programs: types first, then every law of the contract on every backend present."""
    params = parse_params(param or (), "the program")
    for name in sanitize or ():
        if name not in SANITIZERS:
            raise typer.BadParameter(f"needs one of {', '.join(SANITIZERS)}, got `{name}`", param_hint="--sanitize")
    reports = [_check_one(name, params, backend, sanitize or ()) for name in file]
    write_json(json, reports if len(reports) > 1 else reports[0])
    if not all(report["ok"] for report in reports):
        raise typer.Exit(1)


def _check_one(
    name: str, params: dict[str, Value], backends: list[str] | None, sanitizers: Sequence[str]
) -> dict[str, object]:
    """The JSON report of one program; a faulty one is reported and does not keep the others from being checked."""
    try:
        show_warnings(Program(read_source(name)).warnings)
        report = run_battery(name, params, backends, on_result=_show_violation)
        found = [sanitized(name, params, sanitizer) for sanitizer in sanitizers]
    except CompllError as problem:
        show_error(problem)
        diagnostics = [d.headline() for d in problem.diagnostics]
        return {
            "ok": False, "file": name, "compressor": None, "backends": [], "laws": [], "profile": {},
            "diagnostics": diagnostics,
        }  # fmt: skip
    for result in found:
        _show_violation(result)
    report = report.with_results(found)
    _show(report)
    if backends is None:
        _show_skipped()
    return report.as_json()


def _show_violation(result: LawResult) -> None:
    if not result.ok:
        print(f"law {result.law} is broken on {result.backend}: {result.detail}")


def _show(report: Report) -> None:
    out = console()
    table = Table(title=f"{report.compressor} ({report.file})")
    table.add_column("law")
    for backend in report.backends:
        table.add_column(backend)
    table.add_column("detail", overflow="fold")
    by_law: dict[str, dict[str, LawResult]] = {}
    for result in report.laws:
        by_law.setdefault(result.law, {})[result.backend] = result
    for law, results in by_law.items():
        cells = [("ok" if results[b].ok else "BROKEN") if b in results else "-" for b in report.backends]
        telling = next((r for r in results.values() if not r.ok), [*results.values()][-1])
        table.add_row(law, *cells, telling.detail)
    out.print(table)
    for key, value in report.profile.items():
        out.print(f"  {key:16} {_shown(value)}")


def _show_skipped() -> None:
    skipped = (f"{name} ({reason})" for name, reason in skipped_devices().items())
    console().print(f"  not checked on {', '.join(skipped)}")


def _shown(value: object) -> str:
    match value:
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:.4g}"
        case list():
            return ", ".join(map(str, value)) or "none"
        case _:
            return str(value)
