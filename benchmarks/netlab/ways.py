"""Every way of synchronising that is timed: PyTorch's own, compll's, and the steps of the ablation between them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook
from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import PowerSGDState, powerSGD_hook
from torch.nn.parallel import DistributedDataParallel

import compll
from benchmarks.netlab.hooks import no_exchange_hook
from benchmarks.netlab.serial import RATIO, CompiledTopK, Serial, TopKInTorch, serial_hook
from benchmarks.netlab.setups import Setup
from compll.cli.training.bf16 import bf16_mean_hook

NOTHING, FP32, FP16, BF16 = "no exchange", "dense fp32", "fp16 hook", "bf16 hook"
TOPK = "topk allgather"
PLAN, AUTO = "plan", "auto"
LARGE_MB = 1 << 14

Close = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a way is installed; `plan` is the file that `compll plan` wrote, or None."""

    setup: Setup
    plan: Path | None


Install = Callable[[DistributedDataParallel, Place], Close]


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """`install` registers a hook; what it returns gives up what is held. `note` is for readers of a report."""

    install: Install
    note: str
    one_bucket: bool = False
    fits: Callable[[Setup], bool] = lambda setup: True


def _nothing() -> None:
    pass


def _hook(state: object, hook: Callable[..., Any]) -> Install:
    def install(ddp: DistributedDataParallel, place: Place) -> Close:
        ddp.register_comm_hook(state, hook)
        return _nothing

    return install


def _power_sgd(ddp: DistributedDataParallel, place: Place) -> Close:
    ddp.register_comm_hook(PowerSGDState(None, matrix_approximation_rank=4, start_powerSGD_iter=2), powerSGD_hook)
    return _nothing


def _serial(codec: Callable[[], Any]) -> Install:
    def install(ddp: DistributedDataParallel, place: Place) -> Close:
        ddp.register_comm_hook(Serial(list(ddp.parameters()), codec()), serial_hook)
        return _nothing

    return install


def _compll(name: str, **arguments: Any) -> Install:
    return lambda ddp, place: compll.attach(ddp, name, **arguments).close


def _topk(**arguments: Any) -> Install:
    return _compll("topk", ratio=RATIO, **arguments)


def _hierarchical(ddp: DistributedDataParallel, place: Place) -> Close:
    size = place.setup.node_size
    return compll.attach(ddp, "topk", ratio=RATIO, strategy="hierarchical", node_size=size).close


def _planned(ddp: DistributedDataParallel, place: Place) -> Close:
    return compll.attach(ddp, "topk", ratio=RATIO, plan=str(place.plan)).close


def _in_nodes(setup: Setup) -> bool:
    return setup.workers > setup.node_size and setup.workers % setup.node_size == 0


WAYS: Mapping[str, Way] = {
    NOTHING: Way(install=_hook(None, no_exchange_hook), note="backward alone"),
    FP32: Way(install=lambda ddp, place: _nothing, note="plain DDP"),
    FP16: Way(install=_hook(None, fp16_compress_hook), note="PyTorch's"),
    BF16: Way(install=_hook(None, bf16_mean_hook), note="as PyTorch's, which refuses Gloo"),
    "powersgd hook": Way(
        install=_power_sgd, note="PyTorch's, rank 4; in one bucket: in several it hangs on Gloo", one_bucket=True
    ),
    TOPK: Way(install=_topk(), note="1 %, error feedback, payloads of a bucket together"),
    "topk ps": Way(install=_topk(strategy="ps"), note="1 %, encoded again by the shares' owners"),
    "topk ring": Way(install=_topk(strategy="ring"), note="1 %, encoded again at every hop"),
    "topk hierarchical": Way(install=_hierarchical, note="1 %, dense inside nodes", fits=_in_nodes),
    "onebit": Way(install=_compll("onebit"), note="all-gather"),
    "terngrad": Way(install=_compll("terngrad"), note="all-gather"),
    "randomk allreduce": Way(install=_compll("randomk", ratio=RATIO), note="1 %, no positions travel"),
    "powersgd": Way(install=_compll("powersgd", rank=4), note="rank 4, the same formula as PyTorch's hook"),
    "topk in torch": Way(install=_serial(TopKInTorch), note="1 %, plain torch and a hook by hand, nothing overlapped"),
    "+ kernel": Way(install=_serial(CompiledTopK), note="the same hook, the compiled program in it"),
    "+ pipelining": Way(install=_topk(fusion="none"), note="1 %, compll's hook, every gradient alone"),
    PLAN: Way(install=_planned, note="what `compll plan` found for topk", fits=lambda setup: setup.ranks == 1),
    AUTO: Way(install=_topk(plan="auto"), note="what topk found itself, from its first steps"),
}  # fmt: skip

#: The order in which one part after another comes in; `TOPK` adds travelling together.
ABLATION = ("topk in torch", "+ kernel", "+ pipelining", TOPK, PLAN)
