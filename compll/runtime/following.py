"""Following a plan: its routes, pieces and states; and finding one after the first steps (plan="auto")."""

from __future__ import annotations

import json
import logging
import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from compll.diagnostics import CompllError
from compll.runtime.collectives import from_first
from compll.runtime.gradients import GradientSpec
from compll.runtime.plan import Plan
from compll.runtime.planning.adapters import payload_size, planned, strategies_of
from compll.runtime.planning.auto import decide
from compll.runtime.planning.jobs import Gradient
from compll.runtime.planning.probes import probe
from compll.runtime.routing import Routing
from compll.runtime.stats import StepClock
from compll.runtime.strategies import Context, check_strategies

log = logging.getLogger("compll")

#: So many steps are dense before `auto` decides: DDP forms its buckets anew after the first or second.
STEPS_BEFORE = 6
STEPS_MEASURED = 3


class Following:
    """What a run follows at the moment. `alone` and `debug` are those of Routing."""

    def __init__(
        self, plan: Plan, specs: Sequence[GradientSpec], context: Context, device: torch.device, *,
        alone: bool = False, debug: bool = False,
    ) -> None:  # fmt: skip
        self.specs, self.context = specs, context
        self._device, self._alone, self._debug = device, alone, debug
        self.follow(plan)

    def follow(self, plan: Plan) -> None:
        """Take a plan up: with states from the beginning, and everything compiled that it needs."""
        self.plan = plan
        self.routing = Routing(plan, self.specs, self.context, alone=self._alone, debug=self._debug)
        codec = self.context.codec
        codec.states.take_out()
        for spec in self.routing.states:
            compressors = codec.passing if spec.passing else codec.own
            compressors.prepare(spec.piece.shape, spec.dtype, spec.piece.spec.name)
            like = torch.empty(spec.piece.shape, dtype=spec.dtype, device=self._device)
            compressors.first.compile(like)
            key = codec.key(spec.piece, rank=codec.rank, step=0)
            codec.states.add(spec.name, like, compressors.first, key, anew=spec.passing)

    def state_dict(self) -> dict[str, Any]:
        """The plan as JSON has it."""
        return self.plan.to_json()

    @contextmanager
    def resuming(self, saved: Mapping[str, Any]) -> Iterator[None]:
        """Go on with what `state_dict` gave; when something inside raises, all is as before. Raises CompllError when it
        is another plan than is followed."""
        for name, route in Plan.from_json(saved).routes.items():
            if name in self.plan.routes and route != self.plan.routes[name]:
                mine = self.plan.routes[name]
                raise CompllError(
                    f"saved state: `{name}` travels by {route.strategy} in {route.parts} parts there, here by "
                    f"{mine.strategy} in {mine.parts}: give the plan, strategy and options that it was saved with"
                )
        yield

    def after_step(self, recent: Sequence[StepClock]) -> None:
        """Hears of the last steps at the end of each; here nothing follows from them."""


class DecidingLate(Following):
    """Dense for STEPS_BEFORE steps; then every rank measures, rank 0 decides and all follow. A plan that is taken up
    before, from a saved state, stays."""

    def __init__(self, specs: Sequence[GradientSpec], *arguments: object, **options: object) -> None:
        self.decided = False
        dense = Plan.uniform({spec.name: False for spec in specs}, "dense")
        super().__init__(dense, specs, *arguments, **options)  # type: ignore[arg-type]

    def after_step(self, recent: Sequence[StepClock]) -> None:
        if self.decided or len(recent) < STEPS_BEFORE:
            return
        self.decided = True
        self.follow(self._decide(recent[-STEPS_MEASURED - 1 :]))
        found = Counter(route.strategy for route in self.plan.routes.values())
        log.info("plan: %s", ", ".join(f"{count} gradients by {strategy}" for strategy, count in found.items()))

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "decided": self.decided}

    @contextmanager
    def resuming(self, saved: Mapping[str, Any]) -> Iterator[None]:
        plan, states = Plan.from_json(saved), self.context.codec.states
        plan.check_fits({spec.name: spec.compressible for spec in self.specs})
        check_strategies(self.context.codec.own.first, {route.strategy for route in plan.routes.values()})
        before, kept = (self.plan, self.routing), states.take_out()
        try:
            self.follow(plan)
            yield
        except BaseException:
            self.plan, self.routing = before
            states.put_back(kept)
            raise
        self.decided = bool(saved.get("decided", True))

    def _decide(self, clocks: Sequence[StepClock]) -> Plan:
        """All ranks call this together; the answer is rank 0's."""
        codec, collectives = self.context.codec, self.context.collectives
        largest = max((spec.shape.numel() for spec in self.specs if spec.compressible), default=0)
        if not largest:
            return self.plan
        named = {"all": collectives, "node": self.context.node, "across": self.context.across}
        groups = {name: group for name, group in named.items() if group is not None}
        compressor = codec.own.first
        samples = probe(compressor, groups, largest=largest, threads=codec.threads)
        chosen = ""
        if codec.rank == 0:
            gradients = list(_as_seen(clocks, {spec.name: spec for spec in self.specs}))
            plan = decide(
                gradients, samples, backward_s=max(g.ready_s for g in gradients), world_size=codec.world_size,
                node_size=self.context.node.world_size if self.context.node else 1,
                strategies=strategies_of(compressor), payload_bytes=payload_size(compressor),
            )  # fmt: skip
            chosen = json.dumps(plan.to_json())
        return Plan.from_json(json.loads(from_first(collectives, chosen.encode())))


def _as_seen(clocks: Sequence[StepClock], specs: Mapping[str, GradientSpec]) -> Iterator[Gradient]:
    """The gradients of a step in DDP's order; times are medians over all but the first of these steps, in seconds from
    when the step before was synchronised."""
    for bucket, (_, names) in enumerate(clocks[-1].ready):
        times = [
            clock.ready[bucket][0] - max(span.end for span, _ in before.spans)
            for before, clock in zip(clocks, clocks[1:], strict=False)
            if bucket < len(clock.ready)
        ]
        for name in names:
            yield planned(specs[name], bucket=bucket, ready_s=max(0.0, statistics.median(times)))
