"""What synchronising costs: bytes, times and how much of them the backward pass hid. The clock is the caller's."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from compll.runtime.gradients import GradientSpec
from compll.runtime.payload import Payload
from compll.runtime.tasks import Kind

Phase = Literal["encode", "comm", "decode"]
PHASES: Mapping[Phase, tuple[Kind, ...]] = {
    "encode": (Kind.ENCODE,), "comm": (Kind.RECV,), "decode": (Kind.MERGE, Kind.DECODE),
}  # fmt: skip


RECENT_STEPS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class GradientStats:
    """One gradient. Bytes are of the last step; `cut` is how many chosen elements a full section left out in it.

    Times are means per step in ms: the gradient's share, by elements, of its bucket's time.
    """

    name: str
    shape: tuple[int, ...]
    compressed: bool
    bytes_before: int
    bytes_after: int
    encode_ms: float
    comm_ms: float
    decode_ms: float
    cut: int
    residual_norm: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncStats:
    """Means over the steps so far, of this rank.

    `bytes_per_step` is what the rank hands to collectives (payloads, flags and dense gradients); `dense_bytes_per_step`
    is the size of all gradients; `ratio` their quotient. Times in ms: a phase's is the time in which at least one of it
    was running. `overlap` is the share of all three that had passed when DDP handed out the step's last bucket, that
    is, behind the backward pass.
    """

    steps: int
    bytes_per_step: float
    dense_bytes_per_step: int
    ratio: float
    encode_ms: float
    comm_ms: float
    decode_ms: float
    overlap: float
    gradients: list[GradientStats]


@dataclass(frozen=True, slots=True)
class Interval:
    """Seconds on one clock."""

    start: float
    end: float


def total(intervals: Iterable[Interval]) -> float:
    """The length of the intervals' union in seconds."""
    covered, reached = 0.0, float("-inf")
    for interval in sorted(intervals, key=lambda i: i.start):
        covered += max(0.0, interval.end - max(interval.start, reached))
        reached = max(reached, interval.end)
    return covered


def hidden_share(intervals: Sequence[Interval], backward_end: float) -> float:
    """Which share of the intervals' union lies before `backward_end`; 0 for no time at all."""
    busy = total(intervals)
    before = total(Interval(i.start, min(i.end, backward_end)) for i in intervals if i.start < backward_end)
    return before / busy if busy > 0 else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Span(Interval):
    """A task of a unit; that of a recv reaches from the send to the arrival."""

    kind: Kind
    unit: int
    strategy: str


@dataclass(slots=True)
class StepClock:
    """What happened in one step; made anew for each.

    `spans` come with the elements of each gradient that took part; `ready` has, for each bucket, when DDP handed it
    out, and its gradients.
    """

    step: int = 0
    spans: list[tuple[Span, list[tuple[str, int]]]] = field(default_factory=list)
    ready: list[tuple[float, list[str]]] = field(default_factory=list)
    bytes_sent: int = 0

    def of(self, phase: Phase) -> list[Interval]:
        return [span for span, _ in self.spans if span.kind in PHASES[phase]]


class Totals:
    """Sums over steps; `recent` are the last of them, for traces."""

    def __init__(self) -> None:
        self.steps = 0
        self.bytes_sent = 0
        self.seconds: dict[Phase, float] = dict.fromkeys(PHASES, 0.0)
        self.overlap = 0.0
        self.by_gradient: dict[tuple[str, Phase], float] = defaultdict(float)
        self.recent: list[StepClock] = []

    def add(self, clock: StepClock) -> None:
        """Close a step."""
        for phase in PHASES:
            self.seconds[phase] += total(clock.of(phase))
            for span, numels in clock.spans:
                if span.kind in PHASES[phase]:
                    self._share(phase, span, numels)
        self.overlap += hidden_share([span for span, _ in clock.spans], clock.ready[-1][0])
        self.recent = [*self.recent[1 - RECENT_STEPS :], clock]
        self.bytes_sent += clock.bytes_sent
        self.steps += 1

    def _share(self, phase: Phase, interval: Interval, numels: Sequence[tuple[str, int]]) -> None:
        """Divide a unit's time among its gradients by their numbers of elements."""
        everything = sum(numel for _, numel in numels)
        for name, numel in numels:
            self.by_gradient[name, phase] += (interval.end - interval.start) * numel / max(everything, 1)

    def mean_ms(self, phase: Phase) -> float:
        return 1e3 * self.seconds[phase] / max(self.steps, 1)

    def gradient_ms(self, name: str, phase: Phase) -> float:
        return 1e3 * self.by_gradient[name, phase] / max(self.steps, 1)


def summary(
    specs: Sequence[GradientSpec],
    totals: Totals,
    reports: Mapping[str, Sequence[Payload]],
    residual_norms: Mapping[str, float],
) -> SyncStats:
    """The figures so far. `reports` has the payloads of a gradient's pieces in the last step that it was in."""
    dense = sum(spec.nbytes for spec in specs)
    sent = totals.bytes_sent / max(totals.steps, 1)
    return SyncStats(
        steps=totals.steps,
        bytes_per_step=sent,
        dense_bytes_per_step=dense,
        ratio=dense / sent if sent else 1.0,
        encode_ms=totals.mean_ms("encode"),
        comm_ms=totals.mean_ms("comm"),
        decode_ms=totals.mean_ms("decode"),
        overlap=totals.overlap / max(totals.steps, 1),
        gradients=[_gradient_stats(spec, totals, reports.get(spec.name), residual_norms[spec.name]) for spec in specs],
    )


def _gradient_stats(
    spec: GradientSpec, totals: Totals, payloads: Sequence[Payload] | None, residual_norm: float
) -> GradientStats:
    return GradientStats(
        name=spec.name,
        shape=tuple(spec.shape),
        compressed=payloads is not None,
        bytes_before=spec.nbytes,
        bytes_after=sum(p.nbytes for p in payloads) if payloads else spec.nbytes,
        encode_ms=totals.gradient_ms(spec.name, "encode"),
        comm_ms=totals.gradient_ms(spec.name, "comm"),
        decode_ms=totals.gradient_ms(spec.name, "decode"),
        cut=sum(p.cut for p in payloads or ()),
        residual_norm=residual_norm,
    )
