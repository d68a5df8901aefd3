"""Compressors as planning needs them: what they cost, what their payloads weigh, which strategies they allow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import compll
from compll.cli.training.request import Request
from compll.diagnostics import CompllError
from compll.runtime.options import ParameterSchedule, split_arguments
from compll.runtime.planning.adapters import payload_size, strategies_of
from compll.runtime.planning.auto import allowed
from compll.runtime.planning.costs import Costs, Topology
from compll.runtime.planning.jobs import Job
from compll.runtime.planning.prediction import Predictor
from compll.runtime.planning.profile import Measured
from compll.runtime.planning.samples import Sample, compute_costs


@dataclass(frozen=True, slots=True)
class Candidate:
    """A compressor and the samples of it."""

    label: str
    compressor: compll.Compressor
    samples: Sequence[Sample]

    def predictor(self, job: Job, shared: Sequence[Sample], topology: Topology) -> Predictor:
        """Of a job's plans with this compressor; `shared` are the samples that no compressor has a part in."""
        compute = compute_costs([*shared, *self.samples])
        return Predictor(job, Costs(compute=compute, topology=topology, payload_bytes=payload_size(self.compressor)))

    def strategies(self, topology: Topology) -> tuple[str, ...]:
        return allowed(strategies_of(self.compressor), hierarchical=topology.hierarchical)


def load(request: Request) -> compll.Compressor:
    """The compressor of a request, with a schedule's parameters at their last values. Raises CompllError."""
    known = compll.load(request.name)
    options, given = split_arguments(request.params, tuple(known.params), known.name)
    schedule = ParameterSchedule(given)
    return compll.load(request.name, backend=options.backend, **schedule.at(schedule.changes()[-1]))


def profiled(label: str, measured: Measured) -> Candidate:
    """A compressor of a profile. Raises CompllError when its text is no longer the one that was measured."""
    params = {n: {int(k): x for k, x in v.items()} if isinstance(v, dict) else v for n, v in measured.params.items()}
    compressor = load(Request(name=measured.name, params=params))
    if compressor.source_hash != measured.source_hash:
        raise CompllError(f"the text of `{measured.name}` has changed since it was profiled: profile it again")
    return Candidate(label, compressor, measured.samples)
