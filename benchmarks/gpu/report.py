"""The report of a run: reports/gpu-<date>-<card>.md for people, .json for machines; written anew after each part."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.gpu.figures import Figure
from benchmarks.gpu.stress import StressResult
from benchmarks.gpu.suite import SuiteResult
from compll.cli.output import write_json, write_text

TOP_KERNELS = 8


@dataclass(slots=True)
class Report:
    """What is known so far; a part that did not run is None or empty."""

    folder: Path
    facts: dict[str, str]
    command: str
    suite: SuiteResult | None = None
    bandwidth: float = 0.0
    figures: list[Figure] = field(default_factory=list)
    unmeasured: list[str] = field(default_factory=list)
    stress: StressResult | None = None

    @property
    def ok(self) -> bool:
        """Whether everything that ran was right; targets of speed are told, not judged."""
        tests = self.suite is None or self.suite.ok
        return tests and not self.unmeasured and (self.stress is None or not self.stress.wrong)

    @property
    def stem(self) -> str:
        card = re.sub(r"[^a-z0-9]+", "-", self.facts["card"].lower()).strip("-")
        return f"gpu-{self.facts['date']}-{card}"

    def write(self) -> Path:
        """Both files; returns the one for people."""
        write_json(self.folder / f"{self.stem}.json", self.as_json())
        return write_text(self.folder / f"{self.stem}.md", "\n".join(self._lines()) + "\n")

    def as_json(self) -> dict[str, Any]:
        return {
            "ok": self.ok, "facts": self.facts, "command": self.command, "bandwidth_gb_s": self.bandwidth,
            "suite": self.suite and asdict(self.suite), "figures": [figure.as_json() for figure in self.figures],
            "unmeasured": self.unmeasured, "stress": self.stress and asdict(self.stress),
        }  # fmt: skip

    def _lines(self) -> Iterator[str]:
        yield f"# GPU run of {self.facts['date']} on {self.facts['card']}"
        yield from ("", f"`{self.command}`", "")
        yield from (f"- {name}: {value}" for name, value in self.facts.items())
        if self.suite is not None:
            yield from _suite_lines(self.suite)
        if self.figures or self.unmeasured:
            yield from self._figure_lines()
        if self.stress is not None:
            yield from _stress_lines(self.stress)

    def _speed_of_copies(self) -> str:
        if self.bandwidth:
            return f"A copy moves {self.bandwidth:.0f} GB/s."
        return "An emulator's times say nothing of a GPU's."

    def _figure_lines(self) -> Iterator[str]:
        yield from ("", "## Times", "")
        yield "C is the time of one f32 copy of as many elements, measured in turns in the same run; medians, quartiles"
        yield f"in brackets. {self._speed_of_copies()}"
        for shape in dict.fromkeys(figure.row["shape"] for figure in self.figures):
            yield from _table([figure for figure in self.figures if figure.row["shape"] == shape], shape)
        if self.unmeasured:
            yield from ("", "Not measured:", "", *(f"- {text}" for text in self.unmeasured))
        yield from _kernel_lines(self.figures)


def _suite_lines(suite: SuiteResult) -> Iterator[str]:
    counts = ", ".join(f"{count} {what}" for what, count in suite.counts.items())
    yield from ("", "## Tests", "", f"{counts} in {suite.seconds:.0f} s.")
    if suite.failures:
        yield from ("", *(f"- `{name}`: {why}" for name, why in suite.failures.items()))
        yield from ("", "```", suite.output, "```")


def _table(figures: list[Figure], shape: str) -> Iterator[str]:
    yield from ("", f"### {shape}", "")
    yield "| compressor | encode C | floor, target | | decode C | add C | host µs | beside it |"
    yield "|---|---|---|---|---|---|---|---|"
    for figure in figures:
        row = figure.row
        encode = f"{row['copies']:.2f} [{row['copies_low']:.2f}, {row['copies_high']:.2f}]"
        target = f"{figure.target[0]}, {figure.target[1]}" if figure.target else ""
        peers = "; ".join(_peer(peer, figure.wanted) for peer in row["baselines"])
        decode, add = (f"{row[what]['copies']:.2f}" for what in ("decode", "decode_add"))
        cells = (row["label"], encode, target, figure.verdict, decode, add, f"{figure.host_us:.0f}", peers)
        yield f"| {' | '.join(cells)} |"


def _peer(peer: dict[str, Any], wanted: dict[str, float]) -> str:
    name, speedup = peer["baseline"], peer["speedup"]
    goal = f" (wanted {wanted[name]:g})" if name in wanted else ""
    return f"{speedup:.1f}x {name}{goal}"


def _kernel_lines(figures: list[Figure]) -> Iterator[str]:
    if not any(figure.kernels for figure in figures):
        return
    yield from ("", "## Kernel by kernel", "", "Of one encode and decode: microseconds, launches, kernel.")
    for figure in figures:
        yield from ("", f"{figure.row['label']} at {figure.row['shape']}:", "")
        for kernel in figure.kernels[:TOP_KERNELS]:
            yield f"- {kernel.microseconds:.1f}, {kernel.calls:g}, `{kernel.name}`"


def _stress_lines(stress: StressResult) -> Iterator[str]:
    yield from ("", "## Stress", "")
    done = f"{stress.cases} cases, {stress.elements:,} elements in {stress.seconds:.0f} s"
    yield f"{done}, {len(stress.wrong)} differences."
    if stress.wrong:
        yield from ("", *(f"- {text}" for text in stress.wrong))
