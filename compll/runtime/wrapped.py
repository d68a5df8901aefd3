"""Which wrapped models the hook takes, by the wrapper; `placement` looks at devices, `gradients` at parameters."""

from __future__ import annotations

from torch.nn.parallel import DistributedDataParallel

from compll.diagnostics import CompllError, UnsupportedError


def check_wrapper(ddp: object) -> None:
    """Raise UnsupportedError for another wrapper than DDP."""
    kind = type(ddp).__name__
    if not isinstance(ddp, DistributedDataParallel):
        raise UnsupportedError(
            f"SyncState needs a model wrapped in DistributedDataParallel, got `{kind}`; FSDP and other wrappers are "
            "not supported: wrap the plain model in torch.nn.parallel.DistributedDataParallel"
        )


def check_takes_hook(ddp: DistributedDataParallel) -> None:
    """Raise UnsupportedError for a model that FSDP has sharded, CompllError for a DDP object that takes no hook."""
    sharded = [name for name, m in ddp.module.named_modules() if "FSDP" in type(m).__name__ or _is_fsdp(type(m))]
    if sharded:
        raise UnsupportedError(f"module `{sharded[0] or 'model'}` is sharded by FSDP, which is not supported under DDP")
    if ddp.mixed_precision is not None:
        raise CompllError(
            "DDP's mixed_precision= already takes the one communication hook a DDP object has; use torch.autocast"
        )
    if getattr(ddp, "_comm_hooks", None):
        raise CompllError(
            "this DDP object already has a communication hook, and it takes only one: make SyncState on a fresh one"
        )


def _is_fsdp(kind: type) -> bool:
    return any(base.__name__ in ("FSDPModule", "FullyShardedDataParallel") for base in kind.__mro__)
