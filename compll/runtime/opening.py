"""What a SyncState is made of: a plan, process groups, compressors, states; all ranks make them together."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from compll.diagnostics import CompllError
from compll.runtime.codec import Codec
from compll.runtime.collectives import check_agreement
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


@dataclass(frozen=True, kw_only=True)
class Opening:
    """`given` are the program's parameters as they were given, schedules among them."""

    options: SyncOptions
    compressor: Compressor
    given: Mapping[str, Any]
    specs: Sequence[GradientSpec]

    def open(self, parent: dist.ProcessGroup, streams: Streams) -> Settings:
        """For all ranks of `parent` to call, while they are `streams.working()`. Raises CompllError where an argument
        does not fit, on all of them where the ranks' arguments differ; no group is left open then."""
        own, passing = self._compressors()
        plan, problem = self._plan_or_problem(own.first)
        with ExitStack() as opened:
            everyone = open_collectives(parent, streams, self.options.process_group)
            opened.callback(everyone.close)
            digest = self._digest(own.first, problem or plan)
            check_agreement(everyone, digest, "compressor, parameters, options, plan, ranks per node and model")
            if problem is not None:
                raise problem  # on all ranks: one that raised before would leave the others waiting for it
            codec = Codec(
                own=own, passing=passing, states=States(rollback=self._rolls_back()), seed=self.options.seed,
                rank=everyone.rank, world_size=everyone.world_size, threads=torch.get_num_threads(),
            )  # fmt: skip
            size = self._nodes_of(plan, everyone.world_size)
            nodes = () if size is None else open_nodes(parent, streams, size)
            for each in nodes:
                opened.callback(each.close)
            node, across = nodes or (None, None)
            context = Context(codec=codec, collectives=everyone, node=node, across=across)
            following = self._following(plan, context, streams.device)
            opened.pop_all()
        return Settings(
            codec=codec, following=following, collectives=[everyone, *nodes], streams=streams,
            start_step=self.options.start_step, patience_s=_patience_s(parent, streams.device),
        )  # fmt: skip

    def _compressors(self) -> tuple[ScheduledCompressor, ScheduledCompressor]:
        """For a rank's own gradients, and for what it passes on; the latter gets a residual where the program
        keeps what it does not send, in a residual or in states of its own."""
        compressor, schedule = self.compressor, ParameterSchedule(self.given)
        if self.options.feedback != "auto":
            compressor = compressor.with_feedback(self.options.feedback == "on")
        passing = compressor.with_feedback(compressor.feedback or compressor.keeps_states)
        return ScheduledCompressor(compressor, schedule), ScheduledCompressor(passing, schedule)

    def _following(self, plan: Plan | None, context: Context, device: torch.device) -> Following:
        alone, debug = self.options.fusion == "none", self.options.debug
        if plan is None:
            return DecidingLate(self.specs, context, device, alone=alone, debug=debug)
        return Following(plan, self.specs, context, device, alone=alone, debug=debug)

    def _plan(self, compressor: Compressor) -> Plan:
        compressible = {spec.name: spec.compressible for spec in self.specs}
        if self.options.plan != "all":
            plan = read_plan(Path(self.options.plan))
        else:
            default = default_strategy(compressor)
            plan = Plan.uniform(compressible, default if self.options.strategy == "auto" else self.options.strategy)
        plan.check_fits(compressible)
        check_strategies(compressor, {route.strategy for route in plan.routes.values()})
        return plan

    def _plan_or_problem(self, compressor: Compressor) -> tuple[Plan | None, CompllError | None]:
        if self.options.plan == "auto":
            return None, None
        try:
            return self._plan(compressor), None
        except CompllError as problem:
            return None, problem

    @property
    def _node_size(self) -> int | None:
        local = os.environ.get("LOCAL_WORLD_SIZE")
        return self.options.node_size or (int(local) if local else None)

    def _nodes_of(self, plan: Plan | None, world_size: int) -> int | None:
        """Ranks per node where nodes are needed; a plan that is decided later may need them where there are any."""
        size = self._node_size
        if plan is None:
            return size if size is not None and 1 < size < world_size and world_size % size == 0 else None
        if all(route.strategy != "hierarchical" for route in plan.routes.values()):
            return None
        if size is None:
            raise CompllError(
                "strategy='hierarchical' needs node_size, the ranks per node, where torchrun does not say it"
            )
        return size

    def _rolls_back(self) -> bool:
        half = any(spec.compressible and spec.dtype == torch.float16 for spec in self.specs)
        return half if self.options.rollback == "auto" else self.options.rollback == "on"

    def _digest(self, first: Compressor, plan: Plan | CompllError | None) -> bytes:
        options = [(name, getattr(self.options, name)) for name in OPTION_NAMES if name not in NOT_COMPARED]
        gradients = [tuple(getattr(spec, f.name) for f in fields(spec)) for spec in self.specs]
        program = (first.name, first.source_hash, first.params, sorted(self.given.items()))
        followed = plan.to_json() if isinstance(plan, Plan) else str(plan)
        return hashlib.sha256(repr((program, options, followed, self._node_size, gradients)).encode()).digest()


def _patience_s(parent: dist.ProcessGroup, device: torch.device) -> float | None:
    """Gloo's collectives find out by themselves that they take too long."""
    return group_timeout(parent, device).total_seconds() if device.type == "cuda" else None
