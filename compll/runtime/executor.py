"""Carries out the instructions of a step on tensors and collectives. Runs on one thread; decides nothing.

What it writes goes straight into DDP's buckets. A failure ends the step, but not before its end: this rank goes on
sending envelopes that say so, because a collective that only some ranks have started blocks them until their timeout.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch

from compll.diagnostics import CompllError
from compll.runtime.collectives import Collectives
from compll.runtime.compressor import Compressor
from compll.runtime.envelope import FAILED, FINITE, HAS_GRADIENT
from compll.runtime.gradients import GradientSpec, Slice
from compll.runtime.key import Key
from compll.runtime.payload import Payload
from compll.runtime.schedule import (
    Decode,
    DenseReduced,
    Event,
    Exchange,
    Exchanged,
    Finish,
    Instruction,
    ReduceDense,
    StoreDense,
)
from compll.runtime.scheduled import ScheduledCompressor
from compll.runtime.state import State
from compll.runtime.stats import Interval, Phase, StepClock, Totals
from compll.runtime.strategies import Exchange as StrategyExchange
from compll.runtime.strategies import Strategy
from compll.runtime.strategies.dense import DenseExchange, by_dtype

PROBE = 1024  # elements looked at before a whole gradient is searched for anything but zeros


@dataclass(slots=True, kw_only=True)
class Job:
    """One bucket of one step, on its way."""

    bucket: int
    last: bool
    slices: Sequence[Slice]
    future: torch.futures.Future[torch.Tensor]
    buffer: torch.Tensor
    compressed: Sequence[Slice] = ()
    exchange: StrategyExchange | None = None
    dense: DenseExchange | None = None
    started: float = 0.0
    ended: float = 0.0


@dataclass(slots=True)
class Settings:
    """What does not change from step to step."""

    compressors: ScheduledCompressor
    strategy: Strategy
    collectives: Collectives
    states: Mapping[str, State]
    start_step: int
    rollback: bool
    seed: int
    threads: int


@dataclass(slots=True)
class Progress:
    """The current step."""

    jobs: dict[int, Job] = field(default_factory=dict)
    pool: DenseExchange | None = None
    pool_started: float = 0.0
    finite: bool = True
    failure: tuple[str, Exception] | None = None
    encoded: list[str] = field(default_factory=list)
    clock: StepClock = field(default_factory=StepClock)


class Executor:
    """`post` receives the events that instructions cause, from any thread."""

    def __init__(self, settings: Settings, post: Callable[[Event], None]) -> None:
        self._settings = settings
        self._post = post
        self._snapshots: dict[str, State] = {}
        self._progress = Progress()
        self.step = 0
        self.totals = Totals()
        self.reports: dict[str, tuple[int, Payload]] = {}
        self.doing = ""

    # --- instructions ------------------------------------------------------------------------------------------------

    def accept(self, job: Job) -> None:
        """Take a bucket in; its instructions follow."""
        self._progress.jobs[job.bucket] = job
        if job.last:
            self._progress.clock.backward_end = time.perf_counter()

    def run(self, instruction: Instruction) -> None:
        match instruction:
            case Exchange(bucket):
                self._exchange(self._progress.jobs[bucket])
            case ReduceDense():
                self._reduce_dense()
            case Decode(bucket):
                self._decode(self._progress.jobs[bucket])
            case StoreDense():
                self._store_dense()
            case Finish():
                self._finish()

    def unfinished(self) -> list[Job]:
        """The buckets that DDP waits for."""
        return list(self._progress.jobs.values())

    # --- one bucket --------------------------------------------------------------------------------------------------

    @property
    def _compressing(self) -> bool:
        return self.step >= self._settings.start_step

    def _exchange(self, job: Job) -> None:
        large = [s for s in job.slices if s.spec.compressible]
        done = self._completion(job, Exchanged(job.bucket))
        if not large:
            done()
        elif self._compressing:
            job.compressed = large
            self._encode(job, done)
        else:
            job.dense = DenseExchange(self._settings.collectives, [[piece] for piece in large])
            job.started = time.perf_counter()
            job.dense.start(done)
            self._progress.clock.bytes_sent += job.dense.bytes_sent

    def _encode(self, job: Job, done: Callable[[], None]) -> None:
        self._name_work("encoding", job.compressed)
        begin = time.perf_counter()
        compressor = self._settings.compressors.at(self.step)
        specs = [s.spec for s in job.compressed]
        job.exchange = self._settings.strategy.open(job.bucket, specs, compressor, job.buffer.device)
        flags = [FAILED] * len(specs)
        if self._progress.failure is None:
            try:
                flags = self._encode_present(job, compressor, job.exchange.payloads)
            except Exception as problem:  # the other ranks are told with this bucket
                self._progress.failure = (self.doing, problem)
        job.started = self._took("encode", job, begin)
        job.exchange.start(flags, done)
        self._progress.clock.bytes_sent += job.exchange.bytes_sent

    def _encode_present(self, job: Job, compressor: Compressor, outs: Sequence[torch.Tensor]) -> list[int]:
        """Encode the gradients that this rank has; one flag byte for each."""
        present = [i for i, piece in enumerate(job.compressed) if not is_zero(piece.tensor)]
        pieces = [job.compressed[i] for i in present]
        states = [self._settings.states[p.spec.name] for p in pieces]
        if self._settings.rollback:
            for piece, state in zip(pieces, states, strict=True):
                self._snapshot(piece.spec.name, state)
        keys = self._keys([p.spec for p in pieces], self._settings.collectives.rank)
        payloads = compressor.encode_batch(
            [p.tensor for p in pieces], states, keys, [outs[i] for i in present], threads=self._settings.threads
        )
        flags = [FINITE] * len(job.compressed)
        for i, piece, payload in zip(present, pieces, payloads, strict=True):
            flags[i] = HAS_GRADIENT | (FINITE if payload.finite else 0)
            self.reports[piece.spec.name] = (self.step, payload)
        return flags

    def _decode(self, job: Job) -> None:
        if job.ended:
            self._took("comm", job, job.started, job.ended)
        if job.dense is not None:
            self._progress.finite &= job.dense.store(check=self._settings.rollback)
        self._name_work("decoding", job.compressed)
        if job.exchange is not None:
            job.exchange.wait()
            if self._progress.failure is None:
                try:
                    self._merge(job, job.exchange)
                except Exception as problem:
                    self._progress.failure = (self.doing, problem)

    def _merge(self, job: Job, exchange: StrategyExchange) -> None:
        begin = time.perf_counter()
        outs = [piece.tensor for piece in job.compressed]
        specs = [piece.spec for piece in job.compressed]
        verdicts = exchange.merge(outs, lambda rank: self._keys(specs, rank), self._settings.threads)
        if failed := next((v.failed for v in verdicts if v.failed), ""):
            raise CompllError(f"{failed} could not encode its part; the message there says why")
        for out, verdict in zip(outs, verdicts, strict=True):
            if not verdict.finite:
                out.fill_(float("nan"))
                self._progress.finite = False
        self._took("decode", job, begin)

    # --- the whole step ----------------------------------------------------------------------------------------------

    def _reduce_dense(self) -> None:
        self.doing = "reducing the gradients that are not compressed"
        slices = [s for job in self._progress.jobs.values() for s in job.slices if not s.spec.compressible]
        self._progress.pool = DenseExchange(self._settings.collectives, by_dtype(slices))
        self._progress.pool_started = time.perf_counter()
        self._progress.pool.start(lambda: self._post(DenseReduced()))
        self._progress.clock.bytes_sent += self._progress.pool.bytes_sent

    def _store_dense(self) -> None:
        if self._progress.pool is not None:
            interval = Interval(self._progress.pool_started, time.perf_counter())
            self._progress.clock.intervals["comm"].append(interval)
            self._progress.finite &= self._progress.pool.store(check=self._settings.rollback)

    def _finish(self) -> None:
        if self._progress.failure is not None:
            self.doing, problem = self._progress.failure
            raise problem
        if self._settings.rollback and not self._progress.finite:
            for name in self._progress.encoded:
                self._settings.states[name].copy_from(self._snapshots[name])
        self.totals.add(self._progress.clock)
        self.step += 1
        progress, self._progress = self._progress, Progress()
        for job in progress.jobs.values():
            job.future.set_result(job.buffer)

    # --- helpers -----------------------------------------------------------------------------------------------------

    def _completion(self, job: Job, event: Event) -> Callable[[], None]:
        def done() -> None:
            job.ended = time.perf_counter() if job.started else 0.0
            self._post(event)

        return done

    def _snapshot(self, name: str, state: State) -> None:
        self._progress.encoded.append(name)
        if name not in self._snapshots:
            self._snapshots[name] = state.clone()
        else:
            self._snapshots[name].copy_from(state)

    def _keys(self, specs: Sequence[GradientSpec], rank: int) -> list[Key]:
        return [Key(seed=self._settings.seed, step=self.step, gradient=s.index, rank=rank) for s in specs]

    def _took(self, phase: Phase, job: Job, start: float, end: float = 0.0) -> float:
        interval = Interval(start, end or time.perf_counter())
        self._progress.clock.intervals[phase].append(interval)
        self.totals.share(phase, interval, [(s.spec.name, s.spec.shape.numel()) for s in job.slices])
        return interval.end

    def _name_work(self, verb: str, slices: Sequence[Slice]) -> None:
        names = [f"`{s.spec.name}`" for s in slices]
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        self.doing = f"{verb} {', '.join(names[:3])}{more}"


def is_zero(gradient: torch.Tensor) -> bool:
    """Whether every element is zero, which is how a rank without a gradient appears."""
    flat = gradient.reshape(-1)
    return not bool(flat[:PROBE].any()) and not bool(flat[PROBE:].any())
