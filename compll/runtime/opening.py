"""What a SyncState is made of: a plan, process groups, compressors, states; all ranks make them together."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from compll.diagnostics import CompllError
from compll.runtime.codec import Codec
from compll.runtime.collectives import TorchCollectives
from compll.runtime.compressor import Compressor
from compll.runtime.executor import Settings
from compll.runtime.following import DecidingLate, Following
from compll.runtime.gradients import GradientSpec
from compll.runtime.groups import group_timeout, open_collectives, open_nodes
from compll.runtime.options import OPTION_NAMES, ParameterSchedule, SyncOptions
from compll.runtime.plan import Plan, read_plan
from compll.runtime.scheduled import ScheduledCompressor
from compll.runtime.states import States
from compll.runtime.strategies import Context, check_strategies, default_strategy
from compll.runtime.streams import Streams

#: Options that may differ between ranks, or that are compared by what they lead to.
NOT_COMPARED = ("process_group", "backend", "plan")


#: What `Opening.digest` is of.
COMPARED = "compressor, parameters, options, plan, ranks per node and model"


@dataclass(frozen=True, kw_only=True)
class Opening:
    """`given` are the program's parameters as they were given, schedules among them. Making one raises CompllError
    where an argument does not fit, and concerns no other rank."""

    options: SyncOptions
    compressor: Compressor
    given: Mapping[str, Any]
    specs: Sequence[GradientSpec]
    digest: str = field(init=False)  # of all that must be equal on all ranks (COMPARED)

    def __post_init__(self) -> None:
        object.__setattr__(self, "digest", self._digest())

    def open(self, parent: dist.ProcessGroup, streams: Streams, opened: ExitStack) -> Settings:
        """For all ranks of `parent` to call with equal digests, while they are `streams.working()`. Raises CompllError
        where nodes or schedules do not fit. What is to be closed in the end is entered into `opened` as it is made."""
        own, passing = self._compressors
        everyone = open_collectives(parent, streams, self.options.process_group)
        opened.callback(everyone.close)
        codec = Codec(
            own=own, passing=passing, states=States(rollback=self._rolls_back()), seed=self.options.seed,
            rank=everyone.rank, world_size=everyone.world_size, threads=torch.get_num_threads(),
        )  # fmt: skip
        nodes = []
        for each in self._nodes(parent, streams):
            opened.callback(each.close)
            nodes.append(each)
        node, across = nodes or (None, None)
        context = Context(codec=codec, collectives=everyone, node=node, across=across)
        return Settings(
            codec=codec, following=self._following(context, streams.device), collectives=[everyone, *nodes],
            streams=streams, start_step=self.options.start_step, patience_s=_patience_s(parent, streams.device),
        )  # fmt: skip

    # --- helpers -----------------------------------------------------------------------------------------------------

    def _digest(self) -> str:
        options = [(name, getattr(self.options, name)) for name in OPTION_NAMES if name not in NOT_COMPARED]
        gradients = [tuple(getattr(spec, f.name) for f in fields(spec)) for spec in self.specs]
        first = self._compressors[0].first
        program = (first.name, first.source_hash, first.params, sorted(self.given.items()))
        plan = self._plan and self._plan.to_json()
        return hashlib.sha256(repr((program, options, plan, self._node_size, gradients)).encode()).hexdigest()

    @cached_property
    def _compressors(self) -> tuple[ScheduledCompressor, ScheduledCompressor]:
        """For a rank's own gradients, and for what it passes on; the latter gets a residual where the program
        keeps what it does not send, in a residual or in states of its own."""
        compressor, schedule = self.compressor, ParameterSchedule(self.given)
        if self.options.feedback != "auto":
            compressor = compressor.with_feedback(self.options.feedback == "on")
        passing = compressor.with_feedback(compressor.feedback or compressor.keeps_states)
        return ScheduledCompressor(compressor, schedule), ScheduledCompressor(passing, schedule)

    @cached_property
    def _plan(self) -> Plan | None:
        """None where it is made on the way."""
        if self.options.plan == "auto":
            return None
        compressor = self._compressors[0].first
        compressible = {spec.name: spec.compressible for spec in self.specs}
        if self.options.plan != "all":
            plan = read_plan(Path(self.options.plan))
        else:
            default = default_strategy(compressor)
            plan = Plan.uniform(compressible, default if self.options.strategy == "auto" else self.options.strategy)
        plan.check_fits(compressible)
        check_strategies(compressor, {route.strategy for route in plan.routes.values()})
        return plan

    def _following(self, context: Context, device: torch.device) -> Following:
        alone, debug = self.options.fusion == "none", self.options.debug
        if self._plan is None:
            return DecidingLate(self.specs, context, device, alone=alone, debug=debug)
        return Following(self._plan, self.specs, context, device, alone=alone, debug=debug)

    @property
    def _node_size(self) -> int | None:
        local = os.environ.get("LOCAL_WORLD_SIZE")
        return self.options.node_size or (int(local) if local else None)

    def _nodes(self, parent: dist.ProcessGroup, streams: Streams) -> Iterator[TorchCollectives]:
        """Where nodes are needed; a plan that is decided later may need them where there are any."""
        size, ranks = self._node_size, dist.get_world_size(parent)
        if self._plan is None:
            needed = size is not None and 1 < size < ranks and ranks % size == 0
        else:
            needed = any(route.strategy == "hierarchical" for route in self._plan.routes.values())
        if not needed:
            return iter(())
        if size is None:
            raise CompllError(
                "strategy='hierarchical' needs node_size, the ranks per node, where torchrun does not say it"
            )
        return open_nodes(parent, streams, size)

    def _rolls_back(self) -> bool:
        half = any(spec.compressible and spec.dtype == torch.float16 for spec in self.specs)
        return half if self.options.rollback == "auto" else self.options.rollback == "on"


def _patience_s(parent: dist.ProcessGroup, device: torch.device) -> float | None:
    """Gloo's collectives find out by themselves that they take too long."""
    return group_timeout(parent, device).total_seconds() if device.type == "cuda" else None
