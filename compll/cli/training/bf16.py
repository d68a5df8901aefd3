"""The dense baseline at half the bytes: what PyTorch's bf16 hook does, which DDP refuses without NCCL.

DDP reads the hook's annotations, so this module does without `from __future__ import annotations`.
"""

import torch
import torch.distributed as dist


def bf16_mean_hook(state: None, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """The mean over ranks of the bucket, divided, rounded to bf16, summed, and widened again."""
    gradients = bucket.buffer()
    narrow = (gradients / dist.get_world_size()).to(torch.bfloat16)
    summed = dist.all_reduce(narrow, async_op=True).get_future()

    def widen(done: torch.futures.Future[list[torch.Tensor]]) -> torch.Tensor:
        return gradients.copy_(narrow)

    return summed.then(widen)
