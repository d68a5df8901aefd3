"""Compressors as planning needs them: what they cost, what their payloads weigh, which strategies they allow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import compll
from compll.cli.training.request import Request, parse_request
from compll.diagnostics import CompllError
from compll.runtime.options import ParameterSchedule, split_arguments
from compll.runtime.planning.adapters import payload_size, strategies_of
from compll.runtime.planning.auto import allowed
from compll.runtime.planning.costs import Costs, Topology
from compll.runtime.planning.jobs import Job
from compll.runtime.planning.prediction import Predictor
from compll.runtime.planning.profile import Measured, Profile
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


def label_in(profile: Profile, text: str) -> str:
    """The label of the one compressor of a profile that is meant: by its label, or by its name and as many of its
    parameters as tell it from the others. Raises CompllError where none is, or several are."""
    if text in profile.compressors:
        return text
    asked = parse_request(text)
    measured = {label: _request(m) for label, m in profile.compressors.items()}
    fitting = [
        label
        for label, request in measured.items()
        if request.name == asked.name and asked.params.items() <= request.params.items()
    ]
    if len(fitting) == 1:
        return fitting[0]
    exact = [label for label in fitting if measured[label].params == asked.params]
    if exact:
        return exact[0]
    listed = ", ".join(f"`{measured[label].typed}`" for label in fitting or measured) or "no compressor"
    problem = f"has several that `{text}` could be:" if fitting else f"has no `{text}`; it has"
    raise CompllError(f"the profile {problem} {listed}")


def _request(measured: Measured) -> Request:
    """What was asked for when it was measured; JSON has made texts of the steps of schedules."""
    params = {n: {int(k): x for k, x in v.items()} if isinstance(v, dict) else v for n, v in measured.params.items()}
    return Request(name=measured.name, params=params)


def profiled(label: str, measured: Measured) -> Candidate:
    """A compressor of a profile. Raises CompllError when its text is no longer the one that was measured."""
    compressor = load(_request(measured))
    if compressor.source_hash != measured.source_hash:
        raise CompllError(f"the text of `{measured.name}` has changed since it was profiled: profile it again")
    return Candidate(label, compressor, measured.samples)
