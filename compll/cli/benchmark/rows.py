"""One row of figures: a compressor at a workload, as multiples of a copy, beside its peers. Measures it, too."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

import compll
from compll.cli.benchmark.compiled import compiled
from compll.cli.benchmark.contest import Contestant, Timing, clock_of, compete, repeats_for
from compll.cli.benchmark.peers import peers
from compll.cli.benchmark.workload import Workload

COPY, ENCODE, DECODE, DECODE_ADD = "copy", "encode", "decode", "decode and add"

#: Below so many elements it is launches that are timed, not memory.
LAUNCH_BOUND = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """`timings` has the copy, the compiled functions, and then the peers, the one to compare with first."""

    label: str
    compressor: compll.Compressor
    workload: Workload
    payload_bytes: int
    warm_steps: int
    timings: Mapping[str, Timing]

    @property
    def encode(self) -> Timing:
        return self.timings[ENCODE]

    @property
    def launch_bound(self) -> bool:
        return self.workload.numel < LAUNCH_BOUND

    @property
    def peers(self) -> dict[str, Timing]:
        return {n: t for n, t in self.timings.items() if n not in (COPY, ENCODE, DECODE, DECODE_ADD)}

    def copies(self, ms: float) -> float:
        """A time as a multiple of the copy of the same run."""
        return ms / self.timings[COPY].ms

    def speedup(self, peer: str) -> float:
        """How many times the peer's median is the encoder's."""
        return self.timings[peer].ms / self.encode.ms

    def as_json(self) -> dict[str, Any]:
        baseline = next(iter(self.peers), None)
        return {
            "compressor": self.compressor.name, "label": self.label, "params": self.compressor.params,
            "backend": self.compressor.backend, "shape": self.workload.name, "feedback": self.compressor.feedback,
            "tensors": len(self.workload.shapes), "elements": self.workload.numel,
            "payload_bytes": self.payload_bytes, "warm_steps": self.warm_steps, "launch_bound": self.launch_bound,
            "copy_ms": self.timings[COPY].ms, **self._figures(ENCODE),
            "decode": self._figures(DECODE), "decode_add": self._figures(DECODE_ADD),
            "baseline": baseline, "speedup": baseline and self.speedup(baseline),
            "baselines": [{"baseline": n, **self._figures(n), "speedup": self.speedup(n)} for n in self.peers],
        }  # fmt: skip

    def _figures(self, name: str) -> dict[str, float]:
        timing = self.timings[name]
        return {
            "ms": timing.ms, "ms_low": timing.low, "ms_high": timing.high, "copies": self.copies(timing.ms),
            "copies_low": self.copies(timing.low), "copies_high": self.copies(timing.high), "samples": timing.samples,
        }  # fmt: skip


def measure(label: str, compressor: compll.Compressor, workload: Workload, rounds: int) -> Row:
    """Warm up, then time all in turns."""
    mine = compiled(compressor, workload)
    warm_steps = mine.warm()
    target = torch.empty(workload.numel, device=workload.device)
    others = list(peers(mine))
    for other in others:
        other.step(warm_steps)
    own = [Contestant(ENCODE, mine.encode), Contestant(DECODE, mine.decode), Contestant(DECODE_ADD, mine.decode_add)]
    timings = compete(
        [*own, *others],
        Contestant(COPY, lambda step: target.copy_(workload.flat(step))),
        rounds=rounds,
        clock=clock_of(workload.device),
        repeats=repeats_for(workload.numel),
        first=warm_steps,
    )
    return Row(
        label=label, compressor=compressor, workload=workload, payload_bytes=mine.payload_bytes,
        warm_steps=warm_steps, timings=timings,
    )  # fmt: skip
