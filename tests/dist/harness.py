"""Runs cases in real Gloo processes: one spawn for all of them, groups of the first 1 to 4 ranks inside.

Starting a process costs seconds, a case a fraction of one; so every case of every world size runs in one spawn of four
ranks, and reports for itself.
"""

from __future__ import annotations

import os
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import compll
from compll import SyncState

TIMEOUT = timedelta(seconds=150)
BACKEND = "auto"
LARGEST = 4


@dataclass(frozen=True)
class Ranks:
    """The ranks that run a case, seen from one of them."""

    rank: int
    world: int
    group: Any
    spare: Any  # of the same ranks, for a `process_group=` of one SyncState at a time: groups cost threads for good

    def ddp(self, module: nn.Module, **options: Any) -> DistributedDataParallel:
        return DistributedDataParallel(module, process_group=self.group, **options)

    def agree(self, tensors: Sequence[torch.Tensor]) -> bool:
        """Whether all ranks hold the same bits (NaNs included)."""
        flat = torch.cat([t.detach().float().reshape(-1) for t in tensors]).view(torch.int32)
        everyone = [torch.empty_like(flat) for _ in range(self.world)]
        dist.all_gather(everyone, flat, group=self.group)
        return all(torch.equal(other, flat) for other in everyone)

    def mean(self, tensor: torch.Tensor) -> torch.Tensor:
        total = tensor.clone()
        dist.all_reduce(total, group=self.group)
        return total / self.world


#: A case checks with `assert` on every rank of its world.
Case = Callable[[Ranks], None]


class Outcome:
    """What became of all cases."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def check(self, case: Case, world: int) -> None:
        """Fail with the traces of all ranks on which the case failed."""
        reports = [_report(self._folder, case, world, rank) for rank in range(world)]
        missing = [rank for rank, report in enumerate(reports) if not report.exists()]
        assert not missing, f"ranks {missing} did not come to the end of this case"
        traces = "\n".join(report.read_text() for report in reports)
        assert not traces.strip(), traces


def run_cases(cases: Sequence[tuple[Case, int]], folder: Path) -> Outcome:
    """Run cases, each with its number of ranks, in order."""
    mp.spawn(_run_rank, (tuple(cases), folder), nprocs=LARGEST)
    return Outcome(folder)


def _run_rank(rank: int, cases: Sequence[tuple[Case, int]], folder: Path) -> None:
    torch.set_num_threads(1)
    meet = f"file://{folder}/rendezvous"
    dist.init_process_group("gloo", init_method=meet, rank=rank, world_size=LARGEST, timeout=TIMEOUT)
    groups = {world: (_group(rank, world), _group(rank, world)) for world in range(1, LARGEST + 1)}
    for case, world in cases:
        if rank < world:
            _run_case(case, Ranks(rank, world, *groups[world]), folder)
        dist.barrier()
    dist.destroy_process_group()
    sys.stderr.flush()
    os._exit(0)  # without the interpreter's own end, in which Gloo's threads now and then abort the process


def _group(rank: int, world: int) -> Any:
    """The group of the first `world` ranks. The others get one too: torch names a group made by its members alone by
    how many groups they are in."""
    members, others = list(range(world)), list(range(world, LARGEST))
    groups = [dist.new_group(ranks, timeout=TIMEOUT) if ranks else None for ranks in (members, others)]
    return groups[rank not in members]


def _run_case(case: Case, ranks: Ranks, folder: Path) -> None:
    begin = time.perf_counter()
    trace = ""
    try:
        case(ranks)
    except BaseException:
        trace = f"rank {ranks.rank}:\n{traceback.format_exc()}"
    _report(folder, case, ranks.world, ranks.rank).write_text(trace)
    print(f"{case.__name__}[{ranks.rank}/{ranks.world}] {time.perf_counter() - begin:.2f} s", file=sys.stderr)


def _report(folder: Path, case: Case, world: int, rank: int) -> Path:
    return folder / f"{case.__name__}.{world}.{rank}"


class Given(nn.Module):
    """A model whose gradients are what one asks for: the loss is sum(parameter * wanted gradient)."""

    def __init__(self, **parameters: torch.Tensor) -> None:
        super().__init__()
        for name, tensor in parameters.items():
            self.register_parameter(name, nn.Parameter(tensor))

    def forward(self, wanted: dict[str, torch.Tensor]) -> torch.Tensor:
        products = [(self.get_parameter(name) * gradient).sum() for name, gradient in wanted.items()]
        return torch.stack(products).sum()


def attach(ranks: Ranks, ddp: DistributedDataParallel, compressor: object, **options: Any) -> SyncState:
    """compll.attach, on the spare group."""
    return compll.attach(ddp, compressor, process_group=ranks.spare, **options)


def draw(shape: Sequence[int], *salt: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Normal numbers that depend on the salt only."""
    seed = 0
    for word in salt:
        seed = seed * 1009 + word + 1
    return torch.randn(tuple(shape), generator=torch.Generator().manual_seed(seed)).to(dtype)


def backward(ddp: DistributedDataParallel, wanted: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """One synchronised backward pass; the gradients by name."""
    ddp.zero_grad(set_to_none=True)
    ddp(wanted).backward()
    return {n: p.grad.clone() for n, p in ddp.module.named_parameters() if p.grad is not None}


SHAPES = {"first": (40, 30), "bias": (30,), "conv": (6, 7, 5, 5), "last": (33, 41), "scalar": ()}
COMPRESSED = ("first", "conv", "last")


def given_model() -> Given:
    """Parameters of SHAPES, one of them channels_last."""
    parameters = {name: torch.zeros(shape) for name, shape in SHAPES.items()}
    parameters["conv"] = parameters["conv"].contiguous(memory_format=torch.channels_last)
    return Given(**parameters)


def wanted(rank: int, step: int) -> dict[str, torch.Tensor]:
    """A gradient for each of SHAPES."""
    return {n: draw(shape, rank, step, i) for i, (n, shape) in enumerate(SHAPES.items())}


def parameters(ddp: DistributedDataParallel) -> list[torch.Tensor]:
    return [p.detach().clone() for p in ddp.module.parameters()]


def residuals(sync: SyncState) -> dict[str, torch.Tensor]:
    return {name: state["residual"] for name, state in sync.state_dict()["states"].items()}


def equal(one: Sequence[torch.Tensor], other: Sequence[torch.Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))
