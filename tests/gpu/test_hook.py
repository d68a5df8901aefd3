"""The hook on CUDA gradients with NCCL: one rank in this process, and two where there are two GPUs.

What is measured against is the compressor, called by hand on the CPU: kernels give the same bytes on both, sums are
in rank order, so that means have the same bits.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from time import perf_counter, sleep
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from gpu.subject import needs_gpu
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import compll
from compll import CompllError, Key, UnsupportedError

pytestmark = [
    *needs_gpu,
    pytest.mark.skipif(not (dist.is_available() and dist.is_nccl_available()), reason="needs NCCL"),
]
two_gpus = pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")

SHAPES = {"first": (40, 30), "bias": (30,), "conv": (6, 7, 5, 5), "last": (33, 41)}
COMPRESSED = ("first", "conv", "last")
TIMEOUT_S = 20.0
CYCLES = 2_000_000_000  # about one second
PROMPT = 0.3  # seconds

WAYS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("topk", {"strategy": "allgather"}),
    ("randomk", {"strategy": "allreduce"}),
    ("onebit", {"strategy": "ps", "debug": True}),
    ("dgc", {"strategy": "ring", "rollback": "on"}),
    ("terngrad", {"strategy": "hierarchical", "node_size": 1, "fusion": "none"}),
    ("powersgd", {}),
)


class Given(nn.Module):
    """The gradient of each parameter is what the loss is given."""

    def __init__(self) -> None:
        super().__init__()
        for name, shape in SHAPES.items():
            self.register_parameter(name, nn.Parameter(torch.zeros(shape)))

    def forward(self, wanted: dict[str, torch.Tensor]) -> torch.Tensor:
        return torch.stack([(self.get_parameter(name) * g).sum() for name, g in wanted.items()]).sum()


def wanted(rank: int, step: int) -> dict[str, torch.Tensor]:
    """On the CPU."""
    seeds = {name: 1000 * rank + 10 * step + i for i, name in enumerate(SHAPES)}
    return {n: torch.randn(s, generator=torch.Generator().manual_seed(seeds[n])) for n, s in SHAPES.items()}


def model(**options: Any) -> DistributedDataParallel:
    """On the current GPU, in several buckets."""
    options = {"bucket_cap_mb": 0.005, **options}
    return DistributedDataParallel(Given().cuda(), device_ids=[torch.cuda.current_device()], **options)


def backward(ddp: DistributedDataParallel, gradients: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """One step; the means, brought to the CPU."""
    ddp.zero_grad(set_to_none=True)
    ddp({name: gradient.cuda() for name, gradient in gradients.items()}).backward()
    return {name: p.grad.cpu() for name, p in ddp.module.named_parameters() if p.grad is not None}


def by_hand(name: str, world: int, steps: int) -> list[dict[str, torch.Tensor]]:
    """The means of every step, by encode and decode on the CPU."""
    c = compll.load(name, backend="cpu")
    index = {n: i for i, n in enumerate(SHAPES)}
    likes = {n: torch.zeros(SHAPES[n]) for n in COMPRESSED}
    ranks = range(world)
    states = {(r, n): c.init_state(t, Key(gradient=index[n], rank=r)) for r in ranks for n, t in likes.items()}
    means = []
    for step in range(steps):
        totals = {n: torch.zeros_like(like) for n, like in likes.items()}
        for n, total in totals.items():
            for r in ranks:
                key = Key(step=step, gradient=index[n], rank=r)
                total += c.decode(c.encode(wanted(r, step)[n], states[r, n], key=key))
        means.append({n: total / world for n, total in totals.items()})
    return means


@contextmanager
def group(backend: str, rank: int = 0, world: int = 1, meet: str | None = None) -> Iterator[None]:
    meet, timeout = meet or f"file://{tempfile.mkdtemp()}/meet", timedelta(seconds=TIMEOUT_S)
    dist.init_process_group(backend, init_method=meet, rank=rank, world_size=world, timeout=timeout)
    try:
        yield
    finally:
        dist.destroy_process_group()


@pytest.fixture
def alone() -> Iterator[None]:
    with group("nccl"):
        yield


# --- one rank --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["topk", "onebit", "dgc", "terngrad"])
def test_the_hook_is_encode_and_decode(name: str, alone: None) -> None:
    ddp = model()
    sync = compll.attach(ddp, name, strategy="allgather")
    for step, expected in enumerate(by_hand(name, 1, 3)):
        found = backward(ddp, wanted(0, step))
        assert torch.equal(found["bias"], wanted(0, step)["bias"])
        for n, mean in expected.items():
            assert torch.equal(found[n], mean), (n, step)
    sync.close()


@pytest.mark.parametrize("name, options", WAYS, ids=[f"{n}-{o.get('strategy', 'rounds')}" for n, o in WAYS])
def test_every_way(name: str, options: dict[str, Any], alone: None) -> None:
    ddp = model()
    sync = compll.attach(ddp, name, **options)
    for step in range(3):
        found = backward(ddp, wanted(0, step))
        assert all(g.isfinite().all() and g.any() for g in found.values())
    assert sync.stats().steps == 3
    sync.close()


def test_backward_on_a_side_stream_that_is_late(alone: None) -> None:
    """Gradients that are there long after the hook was called, and whoever reads the means is on that stream."""
    ddp, side = model(), torch.cuda.Stream()
    sync = compll.attach(ddp, "topk")
    gradients = {name: torch.zeros(shape, device="cuda") for name, shape in SHAPES.items()}
    for step, expected in enumerate(by_hand("topk", 1, 2)):
        ddp.zero_grad(set_to_none=True)
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            loss = ddp(gradients)
            torch.cuda._sleep(CYCLES // 4)
            for name, gradient in wanted(0, step).items():
                gradients[name].data.copy_(gradient)
            loss.backward()
            found = {n: ddp.module.get_parameter(n).grad.clone() for n in COMPRESSED}
        torch.cuda.synchronize()
        for n, mean in expected.items():
            assert torch.equal(found[n].cpu(), mean), (n, step)
    sync.close()


def test_the_hook_waits_for_nothing(alone: None) -> None:
    """While the GPU is busy, every call of the hook comes back."""
    ddp, took = model(), []
    state = compll.SyncState(ddp, "topk")

    def timed(state: object, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        start = perf_counter()
        future = compll.sync_hook(state, bucket)
        took.append(perf_counter() - start)
        return future

    timed.__annotations__ |= {"bucket": dist.GradBucket, "return": torch.futures.Future[torch.Tensor]}
    ddp.register_comm_hook(state, timed)
    for step in range(3):
        gradients = {name: gradient.cuda() for name, gradient in wanted(0, step).items()}
        ddp.zero_grad(set_to_none=True)
        torch.cuda._sleep(CYCLES)
        ddp(gradients).backward()
    assert max(took[-3:]) < PROMPT, took
    state.close()


def test_not_finite(alone: None) -> None:
    ddp = model()
    sync = compll.attach(ddp, "topk", rollback="on")
    backward(ddp, wanted(0, 0))
    before = sync.state_dict()["states"]
    gradients = wanted(0, 1)
    gradients["conv"][0, 0, 0, 0] = torch.inf
    found = backward(ddp, gradients)
    assert found["conv"].isnan().all() and found["first"].isfinite().all()
    after = sync.state_dict()["states"]
    assert all(torch.equal(before[n]["residual"], after[n]["residual"]) for n in COMPRESSED)
    sync.close()


def test_saved_states_are_on_the_cpu_and_go_on(alone: None, tmp_path: Path) -> None:
    results = []
    for interrupted in (False, True):
        ddp = model()
        sync = compll.attach(ddp, "dgc", seed=3)
        for step in range(4):
            if step == 2 and interrupted:
                torch.save(sync.state_dict(), tmp_path / "saved.pt")
                sync.close()
                ddp = model()
                sync = compll.attach(ddp, "dgc", seed=3)
                saved = torch.load(tmp_path / "saved.pt", weights_only=True)
                assert all(s["residual"] is None or not s["residual"].is_cuda for s in saved["states"].values())
                sync.load_state_dict(saved)
            found = backward(ddp, wanted(0, step))
        results.append(found)
        sync.close()
    assert all(torch.equal(results[0][n], results[1][n]) for n in COMPRESSED)


def test_memory_stays_where_it_is(alone: None) -> None:
    ddp = model()
    sync = compll.attach(ddp, "topk")
    used = []
    for step in range(12):
        backward(ddp, wanted(0, step))
        torch.cuda.synchronize()
        used.append(torch.cuda.memory_allocated())
    assert max(used[6:]) <= max(used[:6]), used
    sync.close()


def test_what_cannot_work_is_refused_by_name(alone: None) -> None:
    with pytest.raises(CompllError, match="backend='cpu' needs CPU tensors, gradients of this model are on `cuda:"):
        compll.attach(model(), "topk", backend="cpu")
    with pytest.raises(UnsupportedError, match="plan='auto' measures on the CPU"):
        compll.attach(model(), "topk", plan="auto")
    with pytest.raises(UnsupportedError, match="need a process group with NCCL, process_group has "):
        compll.attach(model(), "topk", process_group=dist.new_group([0], backend="gloo"))


def test_gloo_alone_is_refused_by_name() -> None:
    with group("gloo"), pytest.raises(UnsupportedError, match="with NCCL, the DDP object's has gloo for them"):
        compll.attach(model(), "topk")


# --- two ranks -------------------------------------------------------------------------------------------------------


def replicas_are_the_mean(rank: int) -> None:
    ddp = model()
    sync = compll.attach(ddp, "topk", strategy="allgather")
    for step, expected in enumerate(by_hand("topk", 2, 3)):
        found = backward(ddp, wanted(rank, step))
        for n, mean in expected.items():
            assert torch.equal(found[n], mean), (n, step)
    sync.close()


def every_way_ends_alike(rank: int) -> None:
    for name, options in WAYS:
        ddp = model()
        sync = compll.attach(ddp, name, **options)
        for step in range(3):
            found = backward(ddp, wanted(rank, step))
        mine = torch.cat([g.reshape(-1) for g in found.values()]).cuda()
        both = [torch.empty_like(mine) for _ in range(2)]
        dist.all_gather(both, mine)
        assert torch.equal(both[0].view(torch.int32), both[1].view(torch.int32)), name
        sync.close()


def a_rank_that_stays_away_is_not_waited_for_for_ever(rank: int) -> None:
    """Rank 1 never comes to its second backward; on rank 0 that is an error within the timeout of the group."""
    ddp = model()
    compll.attach(ddp, "topk")
    backward(ddp, wanted(rank, 0))
    if rank == 1:
        return
    start = perf_counter()
    with pytest.raises(RuntimeError, match="compressor `topk` failed on rank 0 in step 1 while .*: "):
        backward(ddp, wanted(rank, 1))
    assert perf_counter() - start < TIMEOUT_S + 10


@two_gpus
@pytest.mark.parametrize(
    "case", [replicas_are_the_mean, every_way_ends_alike, a_rank_that_stays_away_is_not_waited_for_for_ever]
)
def test_two_ranks(case: Callable[[int], None], tmp_path: Path) -> None:
    mp.spawn(_run, (case, tmp_path), nprocs=2)
    assert {path.name for path in tmp_path.glob("passed.*")} == {"passed.0", "passed.1"}


def _run(rank: int, case: Callable[[int], None], folder: Path) -> None:
    torch.cuda.set_device(rank)
    with group("nccl", rank, 2, f"file://{folder}/meet"):
        case(rank)
        (folder / f"passed.{rank}").touch()
        while len(list(folder.glob("passed.*"))) < 2:  # a rank that is done must not take the group down
            sleep(0.1)
        os._exit(0)  # what was aborted need not be destroyed
