"""What workers are told and what they report: plain records that travel between processes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from compll.cli.training.request import Request
from compll.cli.training.tasks import Dataset


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Everything a worker needs; `store` is the file at which the workers find one another."""

    task: str
    data: Dataset
    requests: tuple[Request, ...]
    workers: int
    seed: int
    steps: int
    store: str
    timeout_s: float = 120.0

    def label(self, run: int) -> str:
        return f"run `{self.requests[run].label}`"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """The cost of exchanging gradients on one worker, per step. `overlap` is the share of communication hidden behind
    the backward pass, None where it is not known."""

    bytes_per_step: float
    encode_ms: float = 0.0
    comm_ms: float = 0.0
    decode_ms: float = 0.0
    overlap: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One trained model. `losses` are the training losses, the mean over workers, one for each step."""

    request: Request
    metric: str
    value: float
    figures: Figures
    dense_bytes: int
    step_ms: float
    momentum: float
    losses: list[float] = field(repr=False)

    @property
    def ratio(self) -> float:
        return self.dense_bytes / self.figures.bytes_per_step

    def as_json(self) -> dict[str, Any]:
        params = {k: dict(v) if hasattr(v, "items") else v for k, v in self.request.params.items()}
        return {
            "compressor": self.request.name, "params": params, "metric": self.metric, "value": self.value,
            "bytes_per_step": self.figures.bytes_per_step, "ratio": self.ratio, "step_ms": self.step_ms,
            "encode_ms": self.figures.encode_ms, "comm_ms": self.figures.comm_ms,
            "decode_ms": self.figures.decode_ms, "overlap": self.figures.overlap, "momentum": self.momentum,
            "losses": self.losses,
        }  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Rank 0 has done `step` steps of run `run`."""

    run: int
    step: int
    loss: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """An exception ended a worker while it was busy with run `run`."""

    rank: int
    run: int
    error: str
    traceback: str
