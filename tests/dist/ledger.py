"""Nothing is lost: over many steps, what was applied and what is kept make up what was given, for each parameter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist
from harness import BACKEND, COMPRESSED, SHAPES, Ranks, draw, given_model
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

import compll
from compll import Compressor, SyncState
from compll.runtime.load import built_in_names

#: Strategies that any program with a payload goes through; `allreduce` has its own case.
STRATEGIES = ("allgather",)
EVERYBODY = 99

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


@dataclass
class Ledger:
    """Sums over the steps of a run, per compressed parameter, in f64. `due` is this rank's share of what is to be sent:
    its gradient, or for a momentum program its velocity."""

    sync: SyncState
    due: Gradients = field(default_factory=lambda: {n: torch.zeros(SHAPES[n]).double() for n in COMPRESSED})
    applied: Gradients = field(default_factory=lambda: {n: torch.zeros(SHAPES[n]).double() for n in COMPRESSED})

    def run(self, ddp: DistributedDataParallel, ranks: Ranks, turns: Sequence[Turn]) -> None:
        """The turns in order; a rank that is not present in one has left the loop before it."""
        mine = [turn for turn in turns if ranks.rank < turn.present]
        with ddp.join() if any(turn.present < ranks.world for turn in turns) else nullcontext():
            for step, turn in enumerate(mine):
                passes = gradients(turn, step, ranks.rank)
                due = self._due(passes)
                got = take(ddp, passes)
                if turn.broken:
                    assert got["last"].isnan().all()  # so that everybody leaves this step out
                    continue
                for n in COMPRESSED:
                    self.due[n] += due[n]
                    self.applied[n] += got[n]

    def _due(self, passes: Sequence[Gradients]) -> Gradients:
        due = {n: sum((p[n] for p in passes if n in p), torch.zeros(SHAPES[n])) for n in COMPRESSED}
        if "momentum" in self.sync.compressor.traits:
            factor = self.sync.compressor.params["momentum"]
            for n, state in self.sync.state_dict()["states"].items():
                if any(n in p for p in passes):
                    due[n] = due[n] + factor * state["states"]["velocity"].reshape(SHAPES[n])
        return due

    def check(self, ranks: Ranks, label: object) -> None:
        """Every rank's due, in the mean, was applied or is kept somewhere."""
        for n, state in self.sync.state_dict()["states"].items():
            applied = self.applied[n].clone()
            dist.broadcast(applied, 0, group=ranks.group)  # only rank 0 was there all the time
            left = ranks.mean(self.due[n] - kept(state).reshape(SHAPES[n]))
            assert applied.any(), (label, n)
            torch.testing.assert_close(applied, left, rtol=1e-5, atol=1e-4, msg=lambda m: f"{label} {n}: {m}")


def kept(state: Mapping[str, Any]) -> Tensor:
    """What one rank keeps of a parameter."""
    residual = state["states"]["pending"] if state["residual"] is None else state["residual"]
    return residual.double()


def follow(ranks: Ranks, compressor: Compressor, turns: Sequence[Turn], ddp: Mapping[str, Any], **options: Any) -> None:
    model = ranks.ddp(given_model(), bucket_cap_mb=0.005, **ddp)
    ledger = Ledger(compll.attach(model, compressor, rollback="on", **options))
    ledger.run(model, ranks, turns)
    ledger.check(ranks, (compressor.name, ddp, options))


# --- cases -----------------------------------------------------------------------------------------------------------


def programs_that_keep_what_they_do_not_send() -> list[Compressor]:
    every = [compll.load(name, backend=BACKEND) for name in built_in_names()]
    return [c for c in every if not c.reduces_inside and (c.feedback or "momentum" in c.traits)]


def nothing_is_lost_by_any_program(ranks: Ranks) -> None:
    programs = programs_that_keep_what_they_do_not_send()
    assert len(programs) > 10
    for c in programs:
        for strategy in STRATEGIES:
            options = {"find_unused_parameters": True}
            follow(ranks, c, [*PLAIN, *UNUSED, *JOINED], options, strategy=strategy)


def nothing_is_lost_when_buckets_form_anew(ranks: Ranks) -> None:
    for name in ("topk", "onebit", "dgc"):
        for strategy in STRATEGIES:
            for options in ({}, {"static_graph": True}, {"gradient_as_bucket_view": True}):
                turns = PLAIN if "static_graph" in options else [*PLAIN, *JOINED]
                follow(ranks, compll.load(name, backend=BACKEND), turns, options, strategy=strategy)


def nothing_is_lost_by_sums_of_payloads(ranks: Ranks) -> None:
    c = compll.load("randomk", ratio=0.1, scale=False, backend=BACKEND)
    for strategy in (*STRATEGIES, "allreduce"):
        for options in ({}, {"find_unused_parameters": True}):
            turns = [*PLAIN, *(UNUSED if options else ()), *JOINED]
            follow(ranks, c, turns, options, strategy=strategy, feedback="on")


def nothing_is_lost_by_a_schedule(ranks: Ranks) -> None:
    c = compll.load("topk", backend=BACKEND)
    follow(ranks, c, [*PLAIN, *JOINED], {}, ratio={0: 0.3, 2: 0.1, 5: 0.001}, start_step=1)


CASES = [
    (case, world)
    for world in (2, 3)
    for case in (
        nothing_is_lost_by_any_program,
        nothing_is_lost_when_buckets_form_anew,
        nothing_is_lost_by_sums_of_payloads,
        nothing_is_lost_by_a_schedule,
    )
]
