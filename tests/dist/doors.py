"""How the hook gets onto a model, and what is refused there, by name."""

from __future__ import annotations

import pytest
import torch
from harness import BACKEND, Ranks, attach, backward, equal, given_model, wanted
from replicas import network, train
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel.distributed import _MixedPrecision

import compll
from compll import CompllError, SyncState, UnsupportedError


def the_hook_may_be_registered_by_hand(ranks: Ranks) -> None:
    results = []
    for by_hand in (True, False):
        ddp = ranks.ddp(network())
        if by_hand:
            ddp.register_comm_hook(SyncState(ddp, "topk", backend=BACKEND), compll.sync_hook)
        else:
            compll.attach(ddp, "topk", backend=BACKEND)
        results.append(train(ddp, ranks.rank, 3))
    assert equal(*results)


def a_second_hook_is_explained(ranks: Ranks) -> None:
    ddp = ranks.ddp(given_model())
    compll.attach(ddp, "topk", backend=BACKEND)
    with pytest.raises(CompllError, match="already has a communication hook, and it takes only one"):
        compll.attach(ddp, "topk", backend=BACKEND)


def what_cannot_be_synchronised_is_refused_by_name(ranks: Ranks) -> None:
    sparse = nn.Sequential(nn.Embedding(50, 30, sparse=True))
    with pytest.raises(CompllError, match="`0.weight` has sparse gradients"):
        compll.attach(ranks.ddp(sparse), "topk", backend=BACKEND)
    with pytest.raises(UnsupportedError, match="needs a model wrapped in DistributedDataParallel, got `Linear`"):
        compll.attach(nn.Linear(3, 3), "topk", backend=BACKEND)  # type: ignore[arg-type]
    with pytest.raises(UnsupportedError, match="needs payloads that add, but `topk` does not declare `trait linear`"):
        compll.attach(ranks.ddp(given_model()), "topk", strategy="allreduce", backend=BACKEND)
    with pytest.raises(CompllError, match="did you mean `ratio`"):
        compll.attach(ranks.ddp(given_model()), "topk", ration=0.1, backend=BACKEND)
    with pytest.raises(CompllError, match="ratio"):
        compll.attach(ranks.ddp(given_model()), "topk", ratio={0: 0.1, 5: 7.0}, backend=BACKEND)
    with pytest.raises(CompllError, match="needs a SyncState as its state, got dict"):
        compll.sync_hook({}, None)  # type: ignore[arg-type]


def what_is_closed_can_be_read(ranks: Ranks) -> None:
    ddp = ranks.ddp(network())
    sync = compll.attach(ddp, "topk", backend=BACKEND)
    train(ddp, ranks.rank, 2)
    before = sync.state_dict()
    sync.close()
    sync.close()
    assert sync.stats().steps == sync.step == 2 and sync.trace()["traceEvents"]
    after = sync.state_dict()["states"]
    assert all(torch.equal(state["residual"], after[name]["residual"]) for name, state in before["states"].items())


def another_compressor_takes_over(ranks: Ranks) -> None:
    """The model is wrapped anew: a DDP object keeps its one hook for good."""
    model = network()
    for name, strategy in (("topk", "auto"), ("onebit", "ps"), ("randomk", "allreduce")):
        ddp = ranks.ddp(model)
        sync = attach(ranks, ddp, name, strategy=strategy, backend=BACKEND)
        assert ranks.agree(train(ddp, ranks.rank, 2)) and sync.compressor.name == name
        sync.close()
        with pytest.raises(CompllError, match="already has a communication hook"):
            attach(ranks, ddp, name, backend=BACKEND)


def two_models_synchronise_side_by_side(ranks: Ranks) -> None:
    """In one backward pass, whose buckets come in turns; each as if it were alone."""
    alone = []
    for name in ("topk", "onebit"):
        ddp = ranks.ddp(given_model(), bucket_cap_mb=0.004)
        sync = compll.attach(ddp, name, backend=BACKEND)
        alone += [list(backward(ddp, wanted(ranks.rank, step)).values()) for step in range(3)]
        sync.close()
    models = [ranks.ddp(given_model(), bucket_cap_mb=0.004) for _ in range(2)]
    syncs = [compll.attach(ddp, name, backend=BACKEND) for ddp, name in zip(models, ("topk", "onebit"))]
    for step in range(3):
        for ddp in models:
            ddp.zero_grad(set_to_none=True)
        torch.stack([ddp(wanted(ranks.rank, step)) for ddp in models]).sum().backward()
        for position, ddp in enumerate(models):
            got = [p.grad for p in ddp.module.parameters()]
            assert equal(got, alone[3 * position + step]), (position, step)
    syncs[0].close()
    backward(models[1], wanted(ranks.rank, 3))
    syncs[1].close()


def the_python_reducer_is_refused_by_name(ranks: Ranks) -> None:
    with torch._dynamo.config.patch(optimize_ddp="python_reducer"):
        ddp = ranks.ddp(nn.Linear(40, 40))
        compll.attach(ddp, "topk", backend=BACKEND)
        with pytest.raises(UnsupportedError, match="optimize_ddp='python_reducer' is not supported"):
            ddp(torch.ones(3, 40)).sum().backward()


def the_hook_of_mixed_precision_is_in_the_way(ranks: Ranks) -> None:
    ddp = ranks.ddp(nn.Linear(40, 40), mixed_precision=_MixedPrecision(param_dtype=torch.bfloat16))
    with pytest.raises(CompllError, match="mixed_precision= already takes the one .* torch.autocast"):
        compll.attach(ddp, "topk", backend=BACKEND)


def other_wrappers_are_refused_by_name(ranks: Ranks) -> None:
    mesh = init_device_mesh("cpu", (ranks.world,))
    sharded = fully_shard(nn.Sequential(nn.Linear(40, 40)), mesh=mesh)
    with pytest.raises(UnsupportedError, match="wrapped in DistributedDataParallel, got `FSDPSequential`"):
        compll.attach(sharded, "topk", backend=BACKEND)


CASES = [
    *((case, 2) for case in (
        the_hook_may_be_registered_by_hand,
        a_second_hook_is_explained,
        what_cannot_be_synchronised_is_refused_by_name,
        what_is_closed_can_be_read,
        another_compressor_takes_over,
        two_models_synchronise_side_by_side,
        the_python_reducer_is_refused_by_name,
        the_hook_of_mixed_precision_is_in_the_way,
    )),
    (another_compressor_takes_over, 3),
    (two_models_synchronise_side_by_side, 3),
    (other_wrappers_are_refused_by_name, 3),
]  # fmt: skip
