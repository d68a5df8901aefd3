"""Which gradient travels by which strategy, in how many parts: data that the runtime obeys. Imports no torch."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compll.diagnostics import CompllError

VERSION = 1
DENSE = ("dense", "dense-bf16")
#: `rounds` is for programs with collectives of their own, the others for all other programs.
COMPRESSED = ("allgather", "allreduce", "ps", "ring", "hierarchical", "rounds")
MOST_PARTS = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """How one gradient gets to its mean: `strategy` is one of DENSE or COMPRESSED, `parts` how many partitions of it
    travel on their own. Raises CompllError for another value."""

    strategy: str
    parts: int = 1

    def __post_init__(self) -> None:
        if self.strategy not in (*DENSE, *COMPRESSED):
            raise CompllError(f"`strategy` needs one of {', '.join((*DENSE, *COMPRESSED))}, got {self.strategy!r}")
        whole = isinstance(self.parts, int) and not isinstance(self.parts, bool)
        if not whole or not 1 <= self.parts <= MOST_PARTS:
            raise CompllError(f"`parts` needs a whole number in [1, {MOST_PARTS}], got {self.parts!r}")
        if self.strategy in DENSE and self.parts != 1:
            raise CompllError(f"strategy {self.strategy} needs `parts` of 1, got {self.parts}")

    @property
    def compressed(self) -> bool:
        return self.strategy in COMPRESSED


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A route for every gradient that is synchronised, by parameter name."""

    routes: Mapping[str, Route]

    @classmethod
    def uniform(cls, names: Mapping[str, bool], strategy: str) -> Plan:
        """One strategy for all gradients that are compressible (the values of `names`), the others dense."""
        routes = {True: Route(strategy=strategy), False: Route(strategy="dense")}
        return cls(routes={name: routes[compressible] for name, compressible in names.items()})

    def to_json(self) -> dict[str, Any]:
        """{"version": 1, "gradients": {name: {"strategy": text, "parts": number}}}."""
        gradients = {name: {"strategy": r.strategy, "parts": r.parts} for name, r in self.routes.items()}
        return {"version": VERSION, "gradients": gradients}

    @classmethod
    def from_json(cls, data: object) -> Plan:
        """The plan that `to_json` gave; more keys beside `gradients` are ignored. Raises CompllError for what is
        wrong, by name."""
        version = data.get("version") if isinstance(data, Mapping) else None
        if not isinstance(data, Mapping) or version != VERSION:
            raise CompllError(f"a plan needs version {VERSION}, got {version!r}")
        gradients = data.get("gradients")
        if not isinstance(gradients, Mapping):
            raise CompllError("a plan needs `gradients`, a mapping from parameter names to routes")
        return cls(routes={str(name): _route(name, entry) for name, entry in gradients.items()})

    def check_fits(self, names: Mapping[str, bool]) -> None:
        """Raise CompllError, naming the first gradient, unless there is a route for each of `names` and for no other,
        and only those that are compressible (the values of `names`) are compressed."""
        model = names.keys()
        for name in [*sorted(model - self.routes.keys()), *sorted(self.routes.keys() - model)]:
            lacking, having = ("plan", "model") if name in model else ("model", "plan")
            raise CompllError(f"the plan does not fit the model: the {lacking} has no `{name}`, which the {having} has")
        for name, route in self.routes.items():
            if route.compressed and not names[name]:
                raise CompllError(
                    f"the plan compresses `{name}`, which this run does not: it has fewer than two dimensions, fewer "
                    "than min_numel elements or a dtype that is not compressed"
                )


def read_plan(path: Path) -> Plan:
    """The plan in a JSON file. Raises CompllError when there is none, or it is not one."""
    try:
        return Plan.from_json(json.loads(path.read_text(encoding="utf-8")))
    except OSError as problem:
        raise CompllError(f"plan {path} cannot be read: {problem.strerror}") from None
    except (ValueError, RecursionError) as problem:  # bytes that are no text, brackets without end
        raise CompllError(f"plan {path} is no JSON: {problem}") from None
    except CompllError as problem:
        raise CompllError(f"plan {path}: {problem}") from None


def _route(name: object, entry: object) -> Route:
    if not isinstance(entry, Mapping) or "strategy" not in entry or entry.keys() - {"strategy", "parts"}:
        raise CompllError(f"`{name}` needs a route with `strategy` and `parts` alone, got {entry!r}")
    try:
        return Route(strategy=entry["strategy"], parts=entry.get("parts", 1))
    except CompllError as problem:
        raise CompllError(f"`{name}`: {problem}") from None
