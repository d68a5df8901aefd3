"""Models that meet DDP half-way: layers with collectives of their own, unused branches, compiled ones."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from harness import BACKEND, Ranks, draw, equal, parameters, residuals
from replicas import identity
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

import compll


class Summed(torch.autograd.Function):
    """The sum over the ranks; its gradient is one, too."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, group: Any) -> Tensor:
        ctx.group = group
        total = x.clone()
        dist.all_reduce(total, group=group)
        return total

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:  # type: ignore[override]
        total = grad.contiguous().clone()
        dist.all_reduce(total, group=ctx.group)
        return total, None


class BatchNormOverRanks(nn.Module):
    """Does as SyncBatchNorm, which works on a GPU only: collectives of its own on DDP's group, in both directions."""

    def __init__(self, features: int, ranks: Ranks) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))
        self._ranks = ranks

    def forward(self, x: Tensor) -> Tensor:
        moments = torch.stack([x.mean(0), x.square().mean(0)])
        mean, square = Summed.apply(moments, self._ranks.group) / self._ranks.world
        return (x - mean) * torch.rsqrt(square - mean.square() + 1e-3) * self.weight


class Talking(nn.Module):
    """Layers whose backward talks between one bucket and the next, buffers that DDP broadcasts, an unused branch."""

    def __init__(self, ranks: Ranks) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second, self.last = nn.Linear(40, 40), nn.Linear(40, 40), nn.Linear(40, 30)
        self.one, self.two = BatchNormOverRanks(40, ranks), BatchNormOverRanks(40, ranks)
        self.plain = nn.BatchNorm1d(40)
        self.spare = nn.Linear(40, 40)

    def forward(self, x: Tensor) -> Tensor:
        x = self.two(torch.tanh(self.second(self.one(torch.tanh(self.first(x))))))
        return self.last(self.plain(x))


def fit(ddp: DistributedDataParallel, ranks: Ranks) -> list[Tensor]:
    optimiser = torch.optim.SGD(ddp.parameters(), lr=0.1)
    for step in range(4):
        optimiser.zero_grad()
        ddp(draw((16, 40), ranks.rank, step)).sin().square().mean().backward()
        optimiser.step()
    return parameters(ddp)


def layers_that_talk_and_unused_branches(ranks: Ranks) -> None:
    for options in ({"find_unused_parameters": True}, {"static_graph": True}):
        plain = fit(ranks.ddp(Talking(ranks), bucket_cap_mb=0.005, **options), ranks)
        ddp = ranks.ddp(Talking(ranks), bucket_cap_mb=0.005, **options)
        compll.attach(ddp, identity(), backend=BACKEND)
        assert equal(plain, fit(ddp, ranks)) or ranks.world > 2, options
        ddp = ranks.ddp(Talking(ranks), bucket_cap_mb=0.005, **options)
        sync = compll.attach(ddp, "topk", ratio=0.1, backend=BACKEND)
        after = fit(ddp, ranks)
        assert ranks.agree(after) and not equal(plain, after)
        assert ddp.module.spare.weight.grad is None and not residuals(sync)["spare.weight"].any(), options


def compiled_models_train_alike(ranks: Ranks) -> None:
    def losses(compiled: bool) -> list[Tensor]:
        torch.manual_seed(0)
        layers = [nn.Linear(40, 600), nn.Tanh(), nn.Linear(600, 600), nn.Tanh(), nn.Linear(600, 600)]
        ddp = ranks.ddp(nn.Sequential(*layers), bucket_cap_mb=1)  # two buckets; dynamo parts the graph at them
        sync = compll.attach(ddp, "topk", ratio=0.1, backend=BACKEND)
        run = torch.compile(ddp, backend="aot_eager") if compiled else ddp
        optimiser = torch.optim.SGD(ddp.parameters(), lr=0.1)
        for step in range(3):
            optimiser.zero_grad()
            run(draw((4, 40), ranks.rank, step)).square().mean().backward()
            optimiser.step()
        assert sync.step == 3
        return [*parameters(ddp), *residuals(sync).values()]

    assert equal(losses(compiled=False), losses(compiled=True))


CASES = [
    (layers_that_talk_and_unused_branches, 2),
    (layers_that_talk_and_unused_branches, 3),
    (compiled_models_train_alike, 2),
]
