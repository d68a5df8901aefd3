"""A profile: what was measured for one job on one machine and process group, as a versioned JSON file. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compll.diagnostics import CompllError
from compll.runtime.planning.jobs import Gradient, Job
from compll.runtime.planning.samples import Sample

VERSION = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One compressor: its name or path, the parameters that were given, the SHA-256 of its text, and samples."""

    name: str
    params: Mapping[str, Any]
    source_hash: str
    samples: tuple[Sample, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """`fingerprint` says where it was measured (machine, versions, threads, ranks, model and its shapes); `samples` are
    those that no compressor has a part in; `compressors` are keyed by label, as typed."""

    fingerprint: Mapping[str, str | int]
    model: str
    workers: int
    node_size: int
    job: Job
    samples: tuple[Sample, ...]
    compressors: Mapping[str, Measured]

    def to_json(self) -> dict[str, Any]:
        return {
            "version": VERSION, "fingerprint": dict(self.fingerprint), "model": self.model, "workers": self.workers,
            "node_size": self.node_size, "backward_s": self.job.backward_s,
            "gradients": [_gradient_json(g) for g in self.job.gradients],
            "samples": _samples_json(self.samples),
            "compressors": {
                label: {
                    "name": m.name, "params": dict(m.params), "source_hash": m.source_hash,
                    "samples": _samples_json(m.samples),
                }
                for label, m in self.compressors.items()
            },
        }  # fmt: skip

    @classmethod
    def from_json(cls, data: Any) -> Profile:
        """The profile that `to_json` gave. Raises CompllError saying what is wrong."""
        version = data.get("version") if isinstance(data, Mapping) else None
        if version != VERSION:
            raise CompllError(f"a profile needs version {VERSION}, got {version!r}")
        try:
            return _read(data)
        except KeyError as problem:
            raise CompllError(f"a profile needs {problem}") from None
        except (TypeError, ValueError, AttributeError) as problem:
            raise CompllError(f"a profile with something unexpected in it: {problem}") from None


def read_profile(path: Path) -> Profile:
    """The profile in a file. Raises CompllError when there is none, or it is not one."""
    try:
        return Profile.from_json(json.loads(path.read_text(encoding="utf-8")))
    except OSError as problem:
        raise CompllError(f"profile {path} cannot be read: {(problem.strerror or str(problem)).lower()}") from None
    except (ValueError, RecursionError) as problem:
        raise CompllError(f"profile {path} is no JSON: {problem}") from None
    except CompllError as problem:
        raise CompllError(f"profile {path}: {problem}") from None


def shapes_hash(gradients: Iterable[Gradient]) -> str:
    """Of names, shapes and dtypes, whatever their order: equal for equal models."""
    listed = sorted((g.name, g.shape, g.dtype) for g in gradients)
    return hashlib.sha256(repr(listed).encode()).hexdigest()[:16]


def _gradient_json(g: Gradient) -> dict[str, Any]:
    return {
        "name": g.name, "shape": list(g.shape), "dtype": g.dtype, "bucket": g.bucket, "ready_s": g.ready_s,
        "compressible": g.compressible,
    }  # fmt: skip


def _samples_json(samples: Iterable[Sample]) -> list[list[Any]]:
    return [[s.operation, s.scope, s.size, s.seconds] for s in samples]


def _read(data: Mapping[str, Any]) -> Profile:
    gradients = tuple(Gradient(**{**entry, "shape": tuple(entry["shape"])}) for entry in data["gradients"])
    compressors = {
        label: Measured(
            name=entry["name"], params=dict(entry["params"]), source_hash=entry["source_hash"],
            samples=_read_samples(entry["samples"]),
        )
        for label, entry in data["compressors"].items()
    }  # fmt: skip
    return Profile(
        fingerprint=dict(data["fingerprint"]),
        model=data["model"],
        workers=int(data["workers"]),
        node_size=int(data["node_size"]),
        job=Job(gradients=gradients, backward_s=float(data["backward_s"])),
        samples=_read_samples(data["samples"]),
        compressors=compressors,
    )


def _read_samples(entries: Sequence[Sequence[Any]]) -> tuple[Sample, ...]:
    return tuple(
        Sample(operation=operation, scope=scope, size=float(size), seconds=float(seconds))
        for operation, scope, size, seconds in entries
    )
