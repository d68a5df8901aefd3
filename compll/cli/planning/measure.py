"""From a model and compressors to a profile, measured in this process and its group."""

from __future__ import annotations

import hashlib
import platform
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

import compll
from compll.cli.planning.calibrate import task_sample
from compll.cli.planning.compressors import Candidate, load
from compll.cli.planning.models import has_model, job_of, model_of
from compll.cli.training.request import Request
from compll.runtime.collectives import Collectives
from compll.runtime.devices import open_device
from compll.runtime.planning.codec_probes import codec_samples
from compll.runtime.planning.group_probes import agreed
from compll.runtime.planning.jobs import Job
from compll.runtime.planning.probes import SMALLEST, shared_samples, sizes_up_to
from compll.runtime.planning.profile import Measured, Profile, shapes_hash
from compll.runtime.planning.samples import Sample, measured_topology
from compll.runtime.planning.timing import REPEATS

#: Elements; about a bucket of DDP.
LARGEST = 1 << 22


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is to be profiled. `largest` is the size of the largest gradient that is measured, in elements."""

    model: str
    requests: tuple[Request, ...]
    workers: int = 1
    node_size: int = 1
    threads: int = 1
    largest: int = LARGEST
    repeats: int = REPEATS
    device: str = "cpu"
    min_numel: int = 1024
    compute_s: float | None = None
    store: str = ""
    timeout_s: float = 300.0

    def label(self, run: int) -> str:
        return "profile" if run < 0 else f"profile of `{self.requests[run].label}`"


Groups = Mapping[str, Collectives]


def profile(wanted: Wanted, groups: Groups | None = None, doing: Callable[[int], None] = lambda run: None) -> Profile:
    """Measure; all ranks of `groups` (collectives by scope, as for `probe`) do so together, and have equal results but
    for the times of backward. Without groups no collective is measured.

    `doing` is told which request is being measured; -1: what has none. Raises CompllError.
    """
    doing(-1)
    job = job_of(wanted.model, min_numel=wanted.min_numel, compute_s=wanted.compute_s, repeats=wanted.repeats)
    common = shared_samples(
        groups or {}, largest=wanted.largest, threads=wanted.threads, repeats=wanted.repeats, device=wanted.device
    )
    shared = _agreed(groups, list(common))
    compressors = {}
    for run, request in enumerate(wanted.requests):
        doing(run)
        candidate = _candidate(wanted, request, groups)
        compressors[request.label] = Measured(
            name=request.name, params=request.params, source_hash=candidate.compressor.source_hash,
            samples=(*candidate.samples, *_steps(wanted, candidate, job, shared, groups)),
        )  # fmt: skip
    return Profile(
        fingerprint=fingerprint(wanted, job), model=wanted.model, workers=wanted.workers, node_size=wanted.node_size,
        job=job, samples=tuple(shared), compressors=compressors,
    )  # fmt: skip


def measured(wanted: Wanted) -> Profile:
    """What one process measures alone: no collectives. Raises CompllError where the device is not there."""
    open_device(wanted.device)
    before = torch.get_num_threads()
    torch.set_num_threads(wanted.threads)
    try:
        return profile(wanted)
    finally:
        torch.set_num_threads(before)


def prepare(wanted: Wanted) -> None:
    """Raise CompllError for what cannot be meant, and compile what will run: before any process is started."""
    job_of(wanted.model, min_numel=wanted.min_numel, compute_s=wanted.compute_s, repeats=1)
    for request in wanted.requests:
        for _ in codec_samples(load(request), [SMALLEST], threads=1, repeats=1):
            pass


def fingerprint(wanted: Wanted, job: Job) -> dict[str, str | int]:
    """Where the figures are from."""
    shapes = shapes_hash(job.gradients)
    return {
        **_here(), "threads": wanted.threads, "workers": wanted.workers, "model": wanted.model, "shapes": shapes
    }  # fmt: skip


def show_differences(profile: Profile) -> None:
    """Say on standard error in what this machine differs from the one that was profiled."""
    for name, value in _here().items():
        if (then := profile.fingerprint.get(name)) != value:
            print(f"note: the profile is of another {name}: {then}, here it is {value}", file=sys.stderr)


def _here() -> dict[str, str | int]:
    machine = hashlib.sha256(f"{platform.node()} {platform.machine()}".encode()).hexdigest()[:16]
    return {
        "machine": machine, "processor": _processor(), "system": platform.system(), "torch": torch.__version__,
        "compll": compll.__version__,
    }  # fmt: skip


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def _candidate(wanted: Wanted, request: Request, groups: Groups | None) -> Candidate:
    compressor = load(request)
    samples = codec_samples(
        compressor, sizes_up_to(wanted.largest), threads=wanted.threads, repeats=wanted.repeats, device=wanted.device
    )
    return Candidate(request.label, compressor, _agreed(groups, list(samples)))


def _steps(
    wanted: Wanted, candidate: Candidate, job: Job, shared: Sequence[Sample], groups: Groups | None
) -> Sequence[Sample]:
    """What real steps tell, where there are some to take."""
    if groups is None or not has_model(wanted.model):
        return ()
    topology, model = measured_topology(shared, wanted.workers), model_of(wanted.model)
    predictor = candidate.predictor(job, shared, topology)
    found = [
        task_sample(candidate.compressor, strategy, predictor, model, wanted.min_numel)
        for strategy in candidate.strategies(topology)
    ]
    return _agreed(groups, found)


def _agreed(groups: Groups | None, samples: Sequence[Sample]) -> list[Sample]:
    return list(samples) if groups is None else agreed(groups["all"], samples)
