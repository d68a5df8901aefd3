"""Nothing is lost: over many steps, what was applied and what is kept make up what was given, for each parameter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist
from harness import BACKEND
from harness import COMPRESSED as ALWAYS_WHOLE
from harness import SHAPES as SMALL
from harness import Given, Ranks, draw, given_model
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

import compll
from compll import Compressor, SyncState
from compll.runtime.load import built_in_names

EVERYBODY = 99
SHAPES = {**SMALL, "wide": (130, 100)}  # the last in several pieces, each with an owner
COMPRESSED = (*ALWAYS_WHOLE, "wide")

Gradients = dict[str, Tensor]


@dataclass(frozen=True, kw_only=True)
class Turn:
    """One optimiser step: how many backward passes it accumulates, what a rank does not use, which ranks still have
    data, and whether the last of them has an inf."""

    passes: int = 1
    unused: Mapping[int, Sequence[str]] = field(default_factory=dict)
    present: int = EVERYBODY
    broken: bool = False

    def uses(self, rank: int, name: str) -> bool:
        return name not in self.unused.get(rank, self.unused.get(EVERYBODY, ()))


PLAIN = (Turn(), Turn(), Turn(passes=3), Turn(broken=True), Turn())
UNUSED = (
    Turn(unused={0: ("first", "bias")}),
    Turn(unused={EVERYBODY: ("conv",)}),
    Turn(unused={1: ("first", "conv", "last", "bias")}, passes=2),
    Turn(),
)
JOINED = (Turn(), Turn(present=1), Turn(present=1))


def gradients(turn: Turn, step: int, rank: int) -> list[Gradients]:
    """What one rank wants in each of its backward passes."""
    passes = [
        {n: draw(SHAPES[n], rank, step, i, each) for i, n in enumerate(SHAPES) if turn.uses(rank, n)}
        for each in range(turn.passes)
    ]
    if turn.broken and rank == 1:
        passes[-1]["last"][2, 3] = torch.inf
    return passes


def take(ddp: DistributedDataParallel, passes: Sequence[Gradients]) -> Gradients:
    """One synchronised step of this rank; zeros for a parameter that got no gradient."""
    ddp.zero_grad(set_to_none=True)
    for i, wanted in enumerate(passes):
        with nullcontext() if i == len(passes) - 1 else ddp.no_sync():
            ddp(wanted).backward()
    grads = {n: p.grad for n, p in ddp.module.named_parameters()}
    return {n: torch.zeros(SHAPES[n]) if grad is None else grad.clone() for n, grad in grads.items()}


@dataclass(frozen=True, kw_only=True)
class Way:
    """A strategy, and how much of the mean over all ranks it is what one of them keeps: for itself, or for passing on.
    `mates`: of how many ranks the mean is what is encoded first."""

    strategy: str
    own: float
    passed_on: float = 0.0
    mates: int = 1

    @property
    def options(self) -> dict[str, Any]:
        return {"strategy": self.strategy, **({"node_size": self.mates} if self.mates > 1 else {})}


def ways(world: int) -> list[Way]:
    """Strategies that any program with a payload goes through."""
    nodes = [Way(strategy="hierarchical", own=2 / world, mates=2)] if world % 2 == 0 else []
    return [
        Way(strategy="allgather", own=1 / world),
        Way(strategy="ps", own=1 / world, passed_on=1.0),
        Way(strategy="ring", own=1 / world, passed_on=1 / world),
        *nodes,
    ]


@dataclass
class Ledger:
    """Sums over the steps of a run, per compressed parameter, in f64. `due` is this rank's share of what is to be
    applied: of the mean gradient, or for a momentum program of the mean velocity."""

    sync: SyncState
    way: Way
    ranks: Ranks
    due: Gradients = field(default_factory=lambda: {n: torch.zeros(SHAPES[n]).double() for n in COMPRESSED})
    applied: Gradients = field(default_factory=lambda: {n: torch.zeros(SHAPES[n]).double() for n in COMPRESSED})

    def run(self, ddp: DistributedDataParallel, turns: Sequence[Turn]) -> None:
        """The turns in order; a rank that is not present in one has left the loop before it."""
        mine = [turn for turn in turns if self.ranks.rank < turn.present]
        with ddp.join() if any(turn.present < self.ranks.world for turn in turns) else nullcontext():
            for step, turn in enumerate(mine):
                passes = gradients(turn, step, self.ranks.rank)
                due = self._due(turn, passes)
                got = take(ddp, passes)
                if turn.broken:
                    assert got["last"].isnan().any(), self.way  # so that everybody leaves this step out
                    continue
                for n in COMPRESSED:
                    self.due[n] += due[n]
                    self.applied[n] += got[n]

    def _due(self, turn: Turn, passes: Sequence[Gradients]) -> Gradients:
        due = {n: sum((p[n] for p in passes if n in p), torch.zeros(SHAPES[n])) / self.ranks.world for n in COMPRESSED}
        if "momentum" in self.sync.compressor.traits:
            first = self.ranks.rank // self.way.mates * self.way.mates
            mates = range(first, min(first + self.way.mates, turn.present))
            factor = self.sync.compressor.params["momentum"]
            for n in COMPRESSED:
                if any(turn.uses(rank, n) for rank in mates):
                    due[n] = due[n] + factor * self._held(n, "velocity")
        return due

    def _held(self, parameter: str, what: str) -> Tensor:
        """The share of the mean that this rank holds in its states, of all pieces of a parameter."""
        held = torch.zeros(SHAPES[parameter]).double()
        for key, state in self.sync.state_dict()["states"].items():
            place, for_others, _ = key.partition(" passed on")
            name, _, span = place.partition("[")
            if name == parameter and not (for_others and what == "velocity"):
                start, end = map(int, span.rstrip("]").split(":")) if span else (0, held.numel())
                kept = state["states"][what] if state["residual"] is None else state["residual"]
                held.view(-1)[start:end] += (self.way.passed_on if for_others else self.way.own) * kept.reshape(-1)
        return held

    def check(self, label: object) -> None:
        """Every rank's due was applied or is kept somewhere."""
        for n in COMPRESSED:
            applied = self.applied[n].clone()
            dist.broadcast(applied, 0, group=self.ranks.group)  # only rank 0 was there all the time
            left = self.ranks.mean(self.due[n] - self._held(n, "pending")) * self.ranks.world
            assert applied.any(), (label, n)
            torch.testing.assert_close(applied, left, rtol=1e-5, atol=1e-4, msg=lambda m: f"{label} {n}: {m}")


def follow(
    ranks: Ranks, way: Way, compressor: Compressor, turns: Sequence[Turn], ddp: Mapping[str, Any], **options: Any
) -> None:
    small = dict(given_model().named_parameters())
    model = ranks.ddp(Given(**small, wide=torch.zeros(SHAPES["wide"])), bucket_cap_mb=0.005, **ddp)
    sync = compll.attach(model, compressor, rollback="on", process_group=ranks.spare, **way.options, **options)
    ledger = Ledger(sync, way, ranks)
    ledger.run(model, turns)
    ledger.check((compressor.name, way, ddp, options))
    sync.close()


# --- cases -----------------------------------------------------------------------------------------------------------


def programs_that_keep_what_they_do_not_send() -> list[Compressor]:
    every = [compll.load(name, backend=BACKEND) for name in built_in_names()]
    return [c for c in every if not c.reduces_inside and (c.feedback or "momentum" in c.traits)]


def nothing_is_lost_by_any_program(ranks: Ranks) -> None:
    programs = programs_that_keep_what_they_do_not_send()
    assert len(programs) > 10
    for c in programs:
        for way in ways(ranks.world):
            # a velocity that goes on in the node of a rank that has left cannot be seen from outside
            hidden = way.mates > 1 and not c.feedback
            turns = [*PLAIN, *UNUSED, *(() if hidden else JOINED)]
            follow(ranks, way, c, turns, {"find_unused_parameters": True})


def nothing_is_lost_when_buckets_form_anew(ranks: Ranks) -> None:
    for name in ("topk", "onebit", "dgc"):
        for way in ways(ranks.world):
            for options in ({}, {"static_graph": True}, {"gradient_as_bucket_view": True}):
                follow(ranks, way, compll.load(name, backend=BACKEND), PLAIN, options)


def nothing_is_lost_by_sums_of_payloads(ranks: Ranks) -> None:
    c = compll.load("randomk", ratio=0.1, scale=False, backend=BACKEND).with_feedback(True)
    for way in (*ways(ranks.world), Way(strategy="allreduce", own=1 / ranks.world)):
        for options in ({}, {"find_unused_parameters": True}):
            turns = [*PLAIN, *(UNUSED if options else ()), *JOINED]
            follow(ranks, way, c, turns, options)


def nothing_is_lost_by_a_schedule(ranks: Ranks) -> None:
    c = compll.load("topk", backend=BACKEND)
    for way in ways(ranks.world):
        follow(ranks, way, c, [*PLAIN, *JOINED], {}, ratio={0: 0.3, 2: 0.1, 5: 0.001}, start_step=1)


CASES = [
    (nothing_is_lost_by_any_program, 4),
    (nothing_is_lost_when_buckets_form_anew, 2),
    (nothing_is_lost_when_buckets_form_anew, 3),
    (nothing_is_lost_by_sums_of_payloads, 3),
    (nothing_is_lost_by_sums_of_payloads, 4),
    (nothing_is_lost_by_a_schedule, 2),
]
