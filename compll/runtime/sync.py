"""The DistributedDataParallel door: a state object, the communication hook, and `attach`, which does both.

DDP reads the hook's annotations, so this module must not postpone their evaluation. Nothing below it knows DDP.
"""

import hashlib
import logging
import os
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Union

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from compll.diagnostics import CompllError, UnsupportedError
from compll.runtime.checkpoint import check_saved, saved_state
from compll.runtime.collectives import TorchCollectives, check_agreement
from compll.runtime.compressor import Compressor
from compll.runtime.executor import Job, Settings
from compll.runtime.gradients import GradientSpec, cut_bucket, gradient_table
from compll.runtime.key import Key
from compll.runtime.load import load
from compll.runtime.options import OPTION_NAMES, Schedule, SyncOptions, split_arguments
from compll.runtime.scheduled import ScheduledCompressor
from compll.runtime.state import State
from compll.runtime.stats import SyncStats, summary
from compll.runtime.strategies import choose_strategy
from compll.runtime.worker import Worker

log = logging.getLogger("compll")


class SyncState:
    """Everything that compressed synchronisation of one DDP model keeps.

    Args:
        ddp: the wrapped model, before its first backward pass. All ranks make their SyncState together, with equal
            arguments: a process group is made, and the arguments are compared.
        compressor: a built-in name, the path of a `.cll` file, or a `Compressor`.
        arguments: the options of `SyncOptions` and parameters of the program; a parameter may be a schedule
            {step: value from this step on}.

    The mean over the ranks is the same on all of them, bit for bit. Residuals are in units of the gradient: with loss
    scaling, in scaled ones. A program with trait momentum needs an optimiser without momentum of its own, which cannot
    be checked from here. Raises CompllError for a wrong argument, UnsupportedError for what does not work yet.
    """

    def __init__(
        self, ddp: DistributedDataParallel, compressor: Union[str, os.PathLike[str], Compressor], **arguments: Any
    ) -> None:
        _check_model(ddp)
        if not isinstance(compressor, Compressor):
            compressor = load(compressor, backend=arguments.get("backend", "auto"))
        self.options, given = split_arguments(arguments, tuple(compressor.params), compressor.name)
        self._table = gradient_table(ddp.module, self.options.min_numel, ddp.parameters_to_ignore)
        self._compressors = _scheduled(compressor, Schedule(given), self.options)
        self._compressors.prepare(self._compressed)
        self._collectives = TorchCollectives(ddp.process_group, self.options.process_group)
        check_agreement(self._collectives, self._digest(given), "compressor, parameters, options and model")
        strategy = choose_strategy(self.options.strategy, self._compressors.first, self._collectives)
        self._states = self._initial_states()
        settings = Settings(
            compressors=self._compressors,
            strategy=strategy,
            collectives=self._collectives,
            states=self._states,
            start_step=self.options.start_step,
            rollback=self._rolls_back(),
            seed=self.options.seed,
            threads=torch.get_num_threads(),
        )
        self._worker = Worker(settings)
        log.info("%r with %s, %d of %d gradients compressed", compressor, self.options, *self._counts())

    @property
    def compressor(self) -> Compressor:
        """The compressor of the next step."""
        return self._compressors.at(self.step)

    @property
    def step(self) -> int:
        """How many steps have been synchronised."""
        return self._worker.executor.step

    def submit(self, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        """Start synchronising a bucket; the future has its buffer, or raises RuntimeError naming what failed."""
        buffer = bucket.buffer()
        if buffer.is_sparse:
            raise CompllError("a sparse gradient came up, which compll does not synchronise: make its module dense")
        future: torch.futures.Future[torch.Tensor] = torch.futures.Future()
        slices = list(cut_bucket(buffer, bucket.gradients(), bucket.parameters(), self._table))
        self._worker.submit(
            Job(bucket=bucket.index(), last=bucket.is_last(), slices=slices, future=future, buffer=buffer)
        )
        failure = self._worker.failure

        def result(done: torch.futures.Future[torch.Tensor]) -> torch.Tensor:
            failure.check()
            return done.value()

        return future.then(result)

    def state_dict(self) -> dict[str, Any]:
        """Plain tensors and numbers (`torch.load(weights_only=True)` reads them), states keyed by parameter name.

        Each rank has its own; save all of them. Call it between steps.
        """
        return saved_state(self._identity(), step=self.step, states=self._states)

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        """Go on where `state_dict` was taken. Raises CompllError naming what does not fit, and leaves all as it was."""
        check_saved(saved, self._identity(), self._states)
        for name, state in self._states.items():
            state.load_state_dict(saved["states"][name])
        self._worker.executor.step = int(saved["step"])

    def stats(self) -> SyncStats:
        """Bytes and times per step, in all and per gradient, of this rank since SyncState was made."""
        executor = self._worker.executor
        return summary(list(self._table.values()), executor.totals, executor.reports, self._states)

    def close(self) -> None:
        """End the worker thread and give the process group up. The DDP object cannot be trained with afterwards."""
        self._worker.close()
        self._collectives.close()

    # --- helpers -----------------------------------------------------------------------------------------------------

    @property
    def _compressed(self) -> list[GradientSpec]:
        return [spec for spec in self._table.values() if spec.compressible]

    def _counts(self) -> tuple[int, int]:
        return len(self._compressed), len(self._table)

    def _initial_states(self) -> dict[str, State]:
        states = {}
        for parameter, spec in self._table.items():
            if spec.compressible:
                key = Key(seed=self.options.seed, gradient=spec.index, rank=self._collectives.rank)
                self._compressors.first.compile(parameter.detach())
                states[spec.name] = self._compressors.first.init_state(parameter.detach(), key)
        return states

    def _rolls_back(self) -> bool:
        half = any(spec.dtype == torch.float16 for spec in self._compressed)
        return half if self.options.rollback == "auto" else self.options.rollback == "on"

    def _identity(self) -> dict[str, Any]:
        """What a saved state must have in common with this one."""
        first = self._compressors.first
        return {
            "compressor": first.name,
            "source_hash": first.source_hash,
            "params": first.params,
            "seed": self.options.seed,
            "world_size": self._collectives.world_size,
            "rank": self._collectives.rank,
        }

    def _digest(self, given: Mapping[str, Any]) -> bytes:
        first = self._compressors.first
        shared = [name for name in OPTION_NAMES if name not in ("process_group", "backend")]
        options = [(name, getattr(self.options, name)) for name in shared]
        gradients = [tuple(getattr(spec, f.name) for f in fields(spec)) for spec in self._table.values()]
        identity = (first.name, first.source_hash, first.params, sorted(given.items()), options, gradients)
        return hashlib.sha256(repr(identity).encode()).digest()


def sync_hook(state: object, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """The communication hook: `ddp.register_comm_hook(SyncState(ddp, ...), compll.sync_hook)`."""
    if not isinstance(state, SyncState):
        raise CompllError(f"sync_hook needs a SyncState as its state, got {type(state).__name__}")
    if not isinstance(bucket, dist.GradBucket):
        raise UnsupportedError(
            "the hook got no DDP bucket: torch.compile with optimize_ddp='python_reducer' is not supported; "
            "set torch._dynamo.config.optimize_ddp = 'ddp_optimizer'"
        )
    return state.submit(bucket)


def attach(
    ddp: DistributedDataParallel, compressor: Union[str, os.PathLike[str], Compressor], **arguments: Any
) -> SyncState:
    """Make a SyncState and register the hook with it; the arguments are SyncState's."""
    state = SyncState(ddp, compressor, **arguments)
    ddp.register_comm_hook(state, sync_hook)
    return state


def _scheduled(compressor: Compressor, schedule: Schedule, options: SyncOptions) -> ScheduledCompressor:
    if compressor.reduces_inside:
        raise UnsupportedError(
            f"`{compressor.name}` reduces over the ranks inside encode, which the hook does not do yet; what works is "
            "a program with a payload"
        )
    if options.feedback != "auto":
        compressor = compressor.with_feedback(options.feedback == "on")
    return ScheduledCompressor(compressor, schedule)


def _check_model(ddp: object) -> None:
    kind = type(ddp).__name__
    if not isinstance(ddp, DistributedDataParallel):
        raise UnsupportedError(
            f"SyncState needs a model wrapped in DistributedDataParallel, got `{kind}`; FSDP and other wrappers are "
            "not supported: wrap the plain model in torch.nn.parallel.DistributedDataParallel"
        )
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
    on_gpu = next((n for n, p in ddp.module.named_parameters() if p.device.type != "cpu"), None)
    if on_gpu is not None:
        raise UnsupportedError(f"parameter `{on_gpu}` is not on the CPU; the hook works on CPU gradients today")


def _is_fsdp(kind: type) -> bool:
    return any(base.__name__ in ("FSDPModule", "FullyShardedDataParallel") for base in kind.__mro__)
