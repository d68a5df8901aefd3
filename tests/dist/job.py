"""A training job as one would write it, with checkpoints: what `test_ending.py` starts, harms and starts again.

Usage: python job.py FOLDER TIMEOUT_S [kill|stop|raise RANK STEP]; rank, world size and meeting point come from the
environment, as from torchrun. The misfortune comes over RANK once per FOLDER, in the middle of the backward pass.
"""

from __future__ import annotations

import hashlib
import os
import signal
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

import compll

STEPS = 6


def main(folder: Path, timeout: float, *misfortune: str) -> None:
    torch.set_num_threads(1)
    meet = os.environ.get("MEET", "env://")
    dist.init_process_group("gloo", init_method=meet, timeout=timedelta(seconds=timeout), **_place(meet))
    torch.manual_seed(0)
    layers = [nn.Linear(40, 60), nn.Tanh(), nn.Linear(60, 50), nn.Tanh(), nn.Linear(50, 40)]
    ddp = DistributedDataParallel(nn.Sequential(*layers), bucket_cap_mb=0.005)
    sync = compll.attach(ddp, "topk", ratio=0.05)
    optimiser = torch.optim.SGD(ddp.parameters(), lr=0.1, momentum=0.9)
    parts = {"model": ddp.module, "optimiser": optimiser, "sync": sync}
    for step in range(resume(folder, parts), STEPS):
        strike(folder, step, layers[0], misfortune)
        optimiser.zero_grad()
        ddp(batch(step)).square().mean().backward()
        optimiser.step()
        save(folder, step + 1, parts)
    (folder / f"result.{dist.get_rank()}").write_text(fingerprint(ddp))
    sync.close()
    dist.destroy_process_group()


def _place(meet: str) -> dict[str, int]:
    """A file as meeting point does not read the environment."""
    return {} if meet == "env://" else {"rank": int(os.environ["RANK"]), "world_size": int(os.environ["WORLD_SIZE"])}


def batch(step: int) -> Tensor:
    seed = 1000 * step + dist.get_rank()
    return torch.randn(8, 40, generator=torch.Generator().manual_seed(seed))


def fingerprint(ddp: DistributedDataParallel) -> str:
    flat = torch.cat([p.detach().reshape(-1) for p in ddp.parameters()])
    return hashlib.sha256(flat.numpy().tobytes()).hexdigest()


# --- checkpoints -----------------------------------------------------------------------------------------------------


def save(folder: Path, step: int, parts: dict[str, Any]) -> None:
    """Every rank its own file, complete or not there; the last two stay, since a rank may be one step behind."""
    target = folder / f"{dist.get_rank()}.{step}.pt"
    torch.save({name: part.state_dict() for name, part in parts.items()}, target.with_suffix(".new"))
    target.with_suffix(".new").rename(target)
    (folder / f"{dist.get_rank()}.{step - 2}.pt").unlink(missing_ok=True)


def resume(folder: Path, parts: dict[str, Any]) -> int:
    """Load the newest step that all ranks have; how many steps are done."""
    steps = [int(path.name.split(".")[1]) for path in folder.glob(f"{dist.get_rank()}.*.pt")]
    common = torch.tensor(max(steps, default=0))
    dist.all_reduce(common, dist.ReduceOp.MIN)
    step = int(common)
    if step:
        saved = torch.load(folder / f"{dist.get_rank()}.{step}.pt", weights_only=True)
        for name, part in parts.items():
            part.load_state_dict(saved[name])
        print(f"resumed at step {step}", flush=True)
    return step


# --- misfortune ------------------------------------------------------------------------------------------------------


def strike(folder: Path, step: int, first: nn.Linear, misfortune: tuple[str, ...]) -> None:
    """Let the gradient of the first layer, the last to come, be the end of this process, or nearly so."""
    if misfortune[1:] != (str(dist.get_rank()), str(step)) or (folder / "struck").exists():
        return
    (folder / "struck").touch()

    def end(_: Tensor) -> None:
        if misfortune[0] == "raise":
            raise ValueError("the dog ate the batch")
        os.kill(os.getpid(), {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}[misfortune[0]])

    first.weight.register_hook(end)


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]), *sys.argv[3:])
