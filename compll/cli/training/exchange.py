"""How gradients are exchanged: plain DDP, PyTorch's own hooks, or a compiled compressor; and what that costs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from inspect import signature
from typing import Any, Protocol

from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import PowerSGDState, powerSGD_hook
from torch.nn.parallel import DistributedDataParallel

import compll
from compll.cli.training.bf16 import bf16_mean_hook
from compll.cli.training.request import Request
from compll.cli.training.results import Figures
from compll.diagnostics import CompllError

MOMENTUM = 0.9


class Exchange(Protocol):
    """One way of exchanging gradients, installed on a DDP module."""

    @property
    def momentum(self) -> float:
        """The momentum that the optimiser is to apply."""
        ...

    def figures(self) -> Figures: ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Plain:
    """All-reduce of the gradients, by DDP itself or a dense hook. DDP's own clocks give the times."""

    ddp: DistributedDataParallel
    bytes_per_step: Callable[[], float]
    momentum: float = MOMENTUM

    def figures(self) -> Figures:
        times: dict[str, Any] = self.ddp._get_ddp_logging_data()
        communication = times.get("avg_backward_comm_time", 0)
        overlapped = times.get("avg_backward_compute_comm_overlap_time", 0)
        return Figures(
            bytes_per_step=self.bytes_per_step(), comm_ms=communication / 1e6,
            overlap=overlapped / communication if communication else None,
        )  # fmt: skip

    def close(self) -> None:
        """Nothing is held."""


def dense(ddp: DistributedDataParallel) -> Plain:
    """Plain DDP: fp32."""
    return Plain(ddp, lambda: dense_bytes(ddp))


def dense_bf16(ddp: DistributedDataParallel) -> Plain:
    """Every gradient as bf16: half the bytes."""
    ddp.register_comm_hook(None, bf16_mean_hook)
    return Plain(ddp, lambda: dense_bytes(ddp) / 2)


def powersgd_hook(ddp: DistributedDataParallel, rank: int = 4) -> Plain:
    """PyTorch's PowerSGD hook, compressing from its third step on."""
    state = PowerSGDState(None, matrix_approximation_rank=rank, start_powerSGD_iter=2)
    ddp.register_comm_hook(state, powerSGD_hook)
    return Plain(ddp, lambda: dense_bytes(ddp) / state.compression_stats()[0])


BASELINES: dict[str, Callable[..., Plain]] = {
    "dense": dense,
    "dense-bf16": dense_bf16,
    "powersgd-hook": powersgd_hook,
}


@dataclass(frozen=True, slots=True)
class Compiled:
    """compll's hook with one program."""

    sync: compll.SyncState

    @property
    def momentum(self) -> float:
        return 0.0 if "momentum" in self.sync.compressor.traits else MOMENTUM

    def figures(self) -> Figures:
        stats = self.sync.stats()
        return Figures(
            bytes_per_step=stats.bytes_per_step, encode_ms=stats.encode_ms, comm_ms=stats.comm_ms,
            decode_ms=stats.decode_ms, overlap=stats.overlap,
        )  # fmt: skip

    def close(self) -> None:
        self.sync.close()


def install(ddp: DistributedDataParallel, request: Request, seed: int) -> Exchange:
    """Make `ddp` exchange its gradients as requested; `seed` is that of random draws."""
    if request.name in BASELINES:
        return BASELINES[request.name](ddp, **request.params)
    return Compiled(compll.attach(ddp, request.name, **{"seed": seed, **request.params}))


def check_baseline(request: Request) -> None:
    """Raise CompllError for a parameter that the baseline does not have."""
    known = [name for name in signature(BASELINES[request.name]).parameters if name != "ddp"]
    if wrong := [name for name in request.params if name not in known]:
        takes = ", ".join(known) or "no parameters"
        raise CompllError(f"baseline `{request.name}` takes {takes}, got {', '.join(wrong)}")


def dense_bytes(ddp: DistributedDataParallel) -> int:
    """The bytes of all gradients of one step, uncompressed."""
    return sum(p.numel() * p.element_size() for p in ddp.parameters() if p.requires_grad)
