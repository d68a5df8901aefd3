"""The DistributedDataParallel door: a state object, the communication hook, and `attach`, which does both.

DDP reads the hook's annotations, so this module must not postpone their evaluation. Nothing below it but `wrapped`
knows DDP.
"""

import logging
import os
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any, Union

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from compll.diagnostics import CompllError, UnsupportedError
from compll.runtime.checkpoint import check_identity, check_states, saved_state
from compll.runtime.checks import check_kind
from compll.runtime.compressor import Compressor
from compll.runtime.devices import device_at
from compll.runtime.executor import Bucket
from compll.runtime.gradients import cut_bucket, gradient_table, left_out
from compll.runtime.groups import check_groups
from compll.runtime.load import load
from compll.runtime.meeting import Meeting
from compll.runtime.opening import COMPARED, Opening
from compll.runtime.options import split_arguments
from compll.runtime.payload import Payload
from compll.runtime.placement import check_plan, device_of, other_collectives
from compll.runtime.plan import Plan
from compll.runtime.stats import SyncStats, summary
from compll.runtime.streams import open_streams
from compll.runtime.trace import chrome_trace
from compll.runtime.worker import Worker
from compll.runtime.wrapped import check_takes_hook, check_wrapper

log = logging.getLogger("compll")


class SyncState:
    """Everything that compressed synchronisation of one DDP model keeps.

    Args:
        ddp: the wrapped model, before its first backward pass. All ranks make their SyncState together, with equal
            arguments, which are compared: all of them get it, or all raise.
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
        check_wrapper(ddp)
        meeting = Meeting(ddp.process_group)
        opening, device = meeting.together(lambda: self._prepared(ddp, compressor, arguments))
        meeting.agree(opening.digest, COMPARED)
        with ExitStack() as opened:
            self._streams = open_streams(device)
            opened.callback(self._streams.close)
            with self._streams.working():
                settings = meeting.together(lambda: opening.open(ddp.process_group, self._streams, opened))
            opened.pop_all()
        self._codec, self._following = settings.codec, settings.following
        self._worker = Worker(settings)
        log.info("%r with %s, %d of %d gradients compressed", opening.compressor, self.options, *self._counts())

    @property
    def compressor(self) -> Compressor:
        """The compressor of the next step."""
        return self._codec.compressor

    @property
    def step(self) -> int:
        """How many steps have been synchronised."""
        return self._codec.step

    @property
    def plan(self) -> Plan:
        """Which gradient travels how; with plan="auto", all dense until it is decided."""
        return self._following.plan

    def submit(self, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        """Start synchronising a bucket; the future has its buffer, or raises RuntimeError naming what failed."""
        buffer = bucket.buffer()
        if buffer.is_sparse:
            raise CompllError("a sparse gradient came up, which compll does not synchronise: make its module dense")
        future = self._streams.future()
        slices = list(cut_bucket(buffer, bucket.gradients(), bucket.parameters(), self._table))
        self._worker.submit(
            Bucket(
                index=bucket.index(), last=bucket.is_last(), slices=slices, future=future, buffer=buffer,
                mark=self._streams.mark(),
            )
        )  # fmt: skip
        failure = self._worker.failure

        def result(done: torch.futures.Future[torch.Tensor]) -> torch.Tensor:
            failure.check()
            return done.value()

        return future.then(result)

    def state_dict(self) -> dict[str, Any]:
        """Plain tensors and numbers (`torch.load(weights_only=True)` reads them), states keyed by parameter name;
        tensors on the CPU, whatever the gradients are on.

        Each rank has its own; save all of them. Call it between steps. Raises CompllError after a step that failed.
        """
        if self._worker.failure.in_step:
            raise CompllError(f"states of a step that failed are not worth saving: {self._worker.failure.message}")
        plan = self._following.state_dict()
        with self._streams.working():
            return saved_state(self._identity(), step=self.step, plan=plan, states=self._codec.states)

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        """Go on where `state_dict` was taken. Raises CompllError naming what does not fit, and leaves all as it was."""
        check_identity(saved, self._identity())
        with self._streams.working():
            with self._following.resuming(saved["plan"]):
                check_states(saved["states"], self._codec.states)
            for name, state in self._codec.states.items():
                state.load_state_dict(saved["states"][name])
        self._codec.step, self._codec.resumed = int(saved["step"]), True

    def stats(self) -> SyncStats:
        """Bytes and times per step, in all and per gradient, of this rank since SyncState was made."""
        pieces = self._following.routing.pieces
        reports: dict[str, list[Payload]] = {}
        for name, cut in pieces.items():
            found = [self._codec.reports[piece.name] for piece in cut if piece.name in self._codec.reports]
            latest = max((step for step, _ in found), default=0)
            if found:
                reports[name] = [payload for step, payload in found if step == latest]
        specs = list(self._table.values())
        with self._streams.working():
            norms = {
                spec.name: self._codec.states.residual_norm(piece.name for piece in pieces.get(spec.name, ()))
                for spec in specs
            }
            return summary(specs, self._worker.executor.totals, reports, norms)

    def trace(self) -> dict[str, Any]:
        """This rank's last steps (64 at most) as a timeline in the Chrome trace format, to be written as JSON."""
        return chrome_trace(self._codec.rank, self._worker.executor.totals.recent)

    def close(self) -> None:
        """End the worker thread and give the process group up. The DDP object cannot be trained with afterwards."""
        self._worker.close()

    # --- helpers -----------------------------------------------------------------------------------------------------

    def _prepared(
        self, ddp: DistributedDataParallel, compressor: Union[str, os.PathLike[str], Compressor], arguments: Any
    ) -> tuple[Opening, torch.device]:
        """All that a rank can find out about its arguments by itself, and where its gradients are."""
        check_takes_hook(ddp)
        if not isinstance(compressor, Compressor):
            compressor = load(compressor, backend=arguments.get("backend", "auto"))
        self.options, given = split_arguments(arguments, tuple(compressor.params), compressor.name)
        self._table = gradient_table(ddp.module, self.options.min_numel, ddp.parameters_to_ignore)
        device = device_of({spec.name: parameter.device for parameter, spec in self._table.items()})
        device_at(device, compressor.backend, "gradients of this model")
        check_plan(device, self.options.plan)
        own = self.options.process_group
        check_kind(own, (dist.ProcessGroup, type(None)), "process_group", "a torch.distributed.ProcessGroup or None")
        check_groups(ddp.process_group, device, own)
        others = ", ".join(other_collectives(ddp.module, ddp.find_unused_parameters))
        if others and device.type == "cuda":
            log.warning("%s: DDP's collectives run beside compll's on the GPU, see docs/training.md", others)
        specs = list(self._table.values())
        if wide := left_out(specs, self.options.min_numel):
            log.warning("of a dtype that is not compressed, and sent as they are: %s; see docs/training.md", wide)
        opening = Opening(options=self.options, compressor=compressor, given=given, specs=specs)
        return opening, device

    def _counts(self) -> tuple[int, int]:
        routes = self.plan.routes.values()
        return sum(route.compressed for route in routes), len(routes)

    def _identity(self) -> dict[str, Any]:
        """What a saved state must have in common with this one."""
        first = self._codec.own.first
        return {
            "compressor": first.name,
            "source_hash": first.source_hash,
            "params": first.params,
            "seed": self.options.seed,
            "world_size": self._codec.world_size,
            "rank": self._codec.rank,
        }


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
