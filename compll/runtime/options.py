"""The options of `SyncState`, what each allows, and parameter schedules. Imports no torch."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from compll.diagnostics import CompllError, UnsupportedError
from compll.runtime.key import WORD_LIMIT
from compll.runtime.plan import COMPRESSED

ALLOWED: dict[str, tuple[str, ...]] = {
    "strategy": ("auto", *COMPRESSED),
    "fusion": ("auto", "ahead", "behind", "none"),
    "feedback": ("auto", "on", "off"),
    "rollback": ("auto", "on", "off"),
    "backend": ("auto", "reference", "cpu", "emulator", "cuda"),
}

#: What of the allowed works today; asking for the rest is one clear line.
WORKING: dict[str, tuple[str, ...]] = {"fusion": ("auto", "ahead", "none")}


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncOptions:
    """How gradients are synchronised.

    strategy: `allgather` of payloads; `allreduce` of the payloads' sections, for programs with trait linear; `ps`:
        each rank merges a share, encodes the means again and hands them out; `ring`: partial sums are encoded hop by
        hop; `hierarchical`: dense inside a node, compressed across nodes; `rounds` of all ranks, for programs with
        collectives of their own, which take no other; `auto`: one of rounds, allreduce, allgather, in this order.
    fusion: `ahead` (and `auto`): gradients are compressed one by one, and the payloads of a DDP bucket travel together;
        `none`: each payload travels alone.
    plan: `all`: every gradient that is large enough is compressed by `strategy`; or the path of a plan
        (`compll plan`), which says for each gradient whether, how, and in how many parts; or `auto` (on the CPU): the
        first steps are dense, then such a plan is made from what they and the machine took. Both take the place of
        `strategy`.
    feedback: `auto`: as the program declares; `on` or `off` whatever it declares.
    start_step: so many steps are synchronised densely before compression starts.
    min_numel: a gradient with fewer elements, or with fewer than two dimensions, is never compressed.
    rollback: `on`: if any gradient of any rank is not finite, all states are as before the step; `off`: they keep the
        finite part; `auto`: on if a compressed gradient is f16.
    node_size: ranks per node, for strategy hierarchical (default: LOCAL_WORLD_SIZE, which torchrun sets).
    debug: in every step, ranks compare what they are about to exchange before they do; a difference ends the step on
        all of them with a message that names it.
    seed: of the program's random draws.
    backend: what runs the kernels, as for `compll.load`.
    process_group: a group with the DDP object's ranks that nothing else uses (default: one is made).
    """

    strategy: str = "auto"
    fusion: str = "auto"
    plan: str = "all"
    feedback: str = "auto"
    start_step: int = 0
    min_numel: int = 1024
    rollback: str = "auto"
    node_size: int | None = None
    debug: bool = False
    seed: int = 0
    backend: str = "auto"
    process_group: Any = None

    def __post_init__(self) -> None:
        for name, allowed in ALLOWED.items():
            value = getattr(self, name)
            if not isinstance(value, str) or value not in allowed:
                raise CompllError(f"option `{name}` needs one of {', '.join(allowed)}, got {value!r}")
            works = WORKING.get(name, allowed)
            if value not in works:
                raise UnsupportedError(f"{name}={value!r} is not there yet; what works is {', '.join(works)}")
        if self.node_size is not None:
            _check_count("node_size", self.node_size, least=1)
        for name in ("start_step", "min_numel", "seed"):
            _check_count(name, getattr(self, name))
        if self.seed >= WORD_LIMIT:
            raise CompllError(f"option `seed` needs a whole number below {WORD_LIMIT}, got {self.seed}")
        if not isinstance(self.debug, bool):
            raise CompllError(f"option `debug` needs True or False, got {self.debug!r}")
        if not isinstance(self.plan, (str, os.PathLike)):
            raise CompllError(f"option `plan` needs 'all', 'auto' or the path of a plan, got {self.plan!r}")


def _check_count(name: str, value: object, least: int = 0) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise CompllError(f"option `{name}` needs a whole number of at least {least}, got {value!r}")


OPTION_NAMES = tuple(f.name for f in fields(SyncOptions))


def split_arguments(
    arguments: Mapping[str, Any], parameters: tuple[str, ...], compressor: str
) -> tuple[SyncOptions, dict[str, Any]]:
    """Tell options from the program's parameters. Raises CompllError for a name that is neither."""
    known = (*OPTION_NAMES, *parameters)
    for name in arguments:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            guess = f"; did you mean `{near[0]}`?" if near else ""
            raise CompllError(
                f"`{name}` is neither an option nor a parameter of `{compressor}`{guess} "
                f"(options: {', '.join(OPTION_NAMES)}; parameters: {', '.join(parameters) or 'none'})"
            )
    options = {name: value for name, value in arguments.items() if name in OPTION_NAMES}
    return SyncOptions(**options), {n: v for n, v in arguments.items() if n not in OPTION_NAMES}


@dataclass(frozen=True, slots=True)
class ParameterSchedule:
    """Parameter values by step: each parameter is constant or a mapping {step: value from this step on}."""

    given: Mapping[str, Any]

    def __post_init__(self) -> None:
        for name, value in self.given.items():
            if isinstance(value, Mapping):
                _check_schedule(name, value)

    def at(self, step: int) -> dict[str, Any]:
        """The values given for this step; before a schedule's first entry its parameter is left out."""
        values = {}
        for name, value in self.given.items():
            if not isinstance(value, Mapping):
                values[name] = value
            elif started := [s for s in value if s <= step]:
                values[name] = value[max(started)]
        return values

    def changes(self) -> tuple[int, ...]:
        """Step 0 and every step at which a value changes, ascending."""
        steps = {s for value in self.given.values() if isinstance(value, Mapping) for s in value}
        return tuple(sorted({0, *steps}))


def _check_schedule(name: str, schedule: Mapping[Any, Any]) -> None:
    steps = list(schedule)
    if not steps or any(isinstance(s, bool) or not isinstance(s, int) or s < 0 for s in steps):
        raise CompllError(
            f"a schedule of `{name}` needs at least one entry {{step: value}} with whole steps from 0, got {schedule!r}"
        )
