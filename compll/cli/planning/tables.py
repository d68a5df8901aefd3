"""What `profile`, `plan` and `simulate` print."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence

from rich.table import Table

from compll.cli.planning.simulation import Row
from compll.runtime.planning.explain import Reason
from compll.runtime.planning.links import COLLECTIVES
from compll.runtime.planning.profile import Profile
from compll.runtime.planning.samples import FACTORS, SINGLES, Sample

MILLION = 1e6


def profile_table(profile: Profile) -> Table:
    """One line for each operation: the smallest and the largest measured size, and what the latter means a second."""
    gradients = profile.job.gradients
    elements = sum(g.numel for g in gradients)
    table = Table(
        title=f"{profile.model}: {len(gradients)} gradients, {elements:,} elements, backward ends after "
        f"{1e3 * profile.job.backward_s:.2f} ms; {profile.workers} workers"
    )
    for heading in ("of", "operation"):
        table.add_column(heading)
    for heading in ("size", "ms", "size", "ms", "10^6 a second"):
        table.add_column(heading, justify="right")
    rows = [("", profile.samples), *((label, m.samples) for label, m in profile.compressors.items())]
    for label, samples in rows:
        for operation in dict.fromkeys((s.operation, s.scope) for s in samples):
            table.add_row(label, *_line([s for s in samples if (s.operation, s.scope) == operation]))
    return table


def _line(samples: Sequence[Sample]) -> tuple[str, ...]:
    first, last = min(samples, key=lambda s: s.size), max(samples, key=lambda s: s.size)
    name = last.operation if last.scope == "all" else f"{last.operation} ({last.scope})"
    if last.operation in FACTORS:
        return name, "", "", "", f"{last.seconds:.2f} times", ""
    if last.operation in SINGLES:
        middle = statistics.median(s.seconds for s in samples)
        return name, "", "", "1", f"{1e3 * middle:.3f}", ""
    unit = "bytes" if last.operation in COLLECTIVES else "elements"
    rate = last.size / last.seconds / MILLION if last.seconds > 0 else float("inf")
    ends = (text for s in (first, last) for text in (f"{s.size:,.0f}", f"{1e3 * s.seconds:.3f}"))
    return name, *ends, f"{rate:,.0f} {unit}"


def reasons_table(reasons: Iterable[Reason], title: str) -> Table:
    """One line for each gradient."""
    table = Table(title=title)
    for heading in ("bucket", "gradient", "shape", "route"):
        table.add_column(heading, overflow="fold")
    for heading in ("compute ms", "wire ms"):
        table.add_column(heading, justify="right")
    table.add_column("why", overflow="fold")
    for r in reasons:
        route = r.route.strategy if r.route.parts == 1 else f"{r.route.strategy} in {r.route.parts}"
        shape = "x".join(map(str, r.gradient.shape)) or "1"
        costs = (f"{1e3 * r.compute_s:.3f}", f"{1e3 * r.wire_s:.3f}")
        table.add_row(str(r.gradient.bucket), r.gradient.name, shape, route, *costs, r.why)
    return table


def simulation_table(rows: Sequence[Row]) -> Table:
    """One line for each row; the best step of it is marked."""
    names = list(dict.fromkeys(name for row in rows for name in row.steps))
    table = Table(title="predicted step, ms")
    table.add_column("model")
    for heading in ("workers", "bandwidth", *names):
        table.add_column(heading, justify="right")
    for row in rows:
        marked = (_marked(row, name) for name in names)
        table.add_row(row.model, str(row.workers), row.bandwidth, *marked)
    return table


def _marked(row: Row, name: str) -> str:
    if name not in row.steps:
        return "-"
    text = f"{1e3 * row.steps[name]:,.1f}"
    return f"[bold]{text} *[/bold]" if name == row.best else text
