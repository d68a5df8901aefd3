"""Synchronisation as it is on a GPU, with real processes: buckets that are there some time after they were handed out,
completions through the thread that waits for events, failures of the device. Streams and events are faked, collectives
and kernels are the CPU's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from threading import Thread, current_thread
from typing import Any

import pytest
import torch
from harness import BACKEND, Ranks, attach, backward, equal, given_model, residuals, wanted
from replicas import network, train
from runtime.fake_streams import FakeDevice, install

import compll
from compll import CompllError, Compressor, UnsupportedError
from compll.runtime import streams, sync
from compll.runtime.streams import CudaStreams

MISALIGNED = RuntimeError("CUDA error: misaligned address")

WAYS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("topk", {"strategy": "allgather", "fusion": "none"}),
    ("randomk", {"strategy": "allreduce", "rollback": "on"}),
    ("onebit", {"strategy": "ps", "debug": True}),
    ("dgc", {"strategy": "ring"}),
    ("topk", {"strategy": "ring"}),
    ("powersgd", {}),
    ("terngrad", {"strategy": "hierarchical", "node_size": 2}),
)


@contextmanager
def as_on_a_gpu() -> Iterator[FakeDevice]:
    """Inside, a SyncState takes the CPU for a GPU."""
    device, encode_batch = FakeDevice(), Compressor.encode_batch

    def encode(self: Compressor, *arguments: Any, **options: Any) -> Any:
        device.note("encode")
        return encode_batch(self, *arguments, **options)

    with pytest.MonkeyPatch.context() as patch:
        install(device, patch)
        patch.setattr(sync, "open_streams", CudaStreams)
        patch.setattr(streams, "_check", lambda work: None)  # Gloo's works do not tell how they ended
        patch.setattr(Compressor, "encode_batch", encode)
        yield device


def trained(ranks: Ranks, name: str, options: dict[str, Any]) -> list[torch.Tensor]:
    """The parameters and residuals after a few steps."""
    ddp = ranks.ddp(network(), bucket_cap_mb=0.02)
    state = attach(ranks, ddp, name, backend=BACKEND, **options)
    found = [*train(ddp, ranks.rank, 3), *(r for r in residuals(state).values() if r is not None)]
    assert state.stats().steps == 3
    state.close()
    return found


def arrivals_give_the_same_bits(ranks: Ranks) -> None:
    for name, options in WAYS:
        if options.get("node_size", 1) >= ranks.world:
            continue
        expected = trained(ranks, name, options)
        with as_on_a_gpu() as device:
            found = trained(ranks, name, options)
        assert equal(expected, found), (name, options)
        check_calls(device)


def check_calls(device: FakeDevice) -> None:
    """Everything was done by whom and where it belongs."""
    assert {(who, where) for who, where, _ in device.noted("encode", "set_result")} == {("compll-sync", "worker")}
    assert {(who, where) for who, where, _ in device.noted("wait_event")} == {("compll-sync", "worker")}
    waited = {(who, call) for who, _, call in device.noted("synchronize")}
    assert waited == {("compll-buckets", "synchronize default"), ("compll-arrivals", "synchronize arriving")}
    buckets = len(device.noted("set_result"))
    for call in ("future", "record_stream", "wait_event"):
        assert len(device.noted(call)) == buckets > 3


def hooks_return_before_buckets_are_there(ranks: Ranks) -> None:
    """All buckets of a step are handed out before the device has the first one."""
    with as_on_a_gpu() as device:
        ddp = ranks.ddp(given_model(), bucket_cap_mb=0.004)
        state = attach(ranks, ddp, "topk", backend=BACKEND)
        for step in range(2):  # after the first one DDP forms its buckets anew
            device.calls.clear()
            backward(ddp, wanted(ranks.rank, step))
        buckets = len(device.noted("record_stream"))
        assert buckets > 1
        device.enqueued = SimpleQueue()
        device.held = {"default"}
        device.calls.clear()
        late = Thread(target=release_after, args=(device, buckets))
        late.start()
        backward(ddp, wanted(ranks.rank, 2))
        late.join()
        calls = [call for _, _, call in device.calls]
        assert calls.index("released") < min(calls.index("synchronize default"), calls.index("encode"))
        ready = [when for when, _ in state._worker.executor.totals.recent[-1].ready]
        assert len(ready) == buckets and ready == sorted(ready)
        state.close()


def release_after(device: FakeDevice, buckets: int) -> None:
    assert [device.enqueued.get(timeout=60) for _ in range(buckets)] == ["default"] * buckets
    device.note("released")
    device.release()


def what_a_gpu_lacks_is_refused_by_name(ranks: Ranks) -> None:
    gpu = torch.device("cuda:0")
    with as_on_a_gpu(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(sync, "device_of", lambda gradients: gpu)
        with pytest.raises(CompllError, match="backend `cuda` is not there: torch"):
            compll.attach(ranks.ddp(given_model()), "topk")
        with pytest.raises(CompllError, match="backend='reference' needs CPU tensors, .* on `cuda:0`"):
            compll.attach(ranks.ddp(given_model()), "topk", backend="reference")
        patch.setattr(sync, "device_at", lambda *given: None)
        with pytest.raises(UnsupportedError, match="plan='auto' measures on the CPU"):
            compll.attach(ranks.ddp(given_model()), "topk", plan="auto")
        with pytest.raises(UnsupportedError, match="on `cuda:0` need a process group with NCCL, the DDP .* has gloo"):
            compll.attach(ranks.ddp(given_model()), "topk")


def the_host_reads_once_for_a_message(ranks: Ranks) -> None:
    """On a GPU every read waits for the device: one for a message, and on the device one for what a bucket lacks."""
    for strategy, reads in (("allgather", 1), ("allreduce", 1), ("ps", 2), ("ring", ranks.world)):
        ddp = ranks.ddp(given_model())  # one bucket
        name = "randomk" if strategy == "allreduce" else "topk"
        state = attach(ranks, ddp, name, strategy=strategy, backend=BACKEND)
        backward(ddp, wanted(ranks.rank, 0))
        counted: list[str] = []
        with pytest.MonkeyPatch.context() as patch:
            for method in ("tolist", "item"):
                plain = getattr(torch.Tensor, method)
                patch.setattr(torch.Tensor, method, lambda t, m=method, p=plain: (counted.append(m), p(t))[1])
            backward(ddp, wanted(ranks.rank, 1))
        assert counted == ["tolist"] * reads, (strategy, counted)
        state.close()


def a_device_that_fails_ends_the_step(ranks: Ranks) -> None:
    for failing in ("compll-buckets", "compll-arrivals"):
        with as_on_a_gpu() as device:
            ddp = ranks.ddp(given_model())
            state = compll.attach(ddp, "topk", backend=BACKEND)
            backward(ddp, wanted(ranks.rank, 0))
            device.problem = lambda who=failing: MISALIGNED if current_thread().name == who else None
            with pytest.raises(RuntimeError, match="compressor `topk` failed on rank 0 in step 1 .*misaligned address"):
                backward(ddp, wanted(ranks.rank, 1))
            state.close()


CASES = [
    (hooks_return_before_buckets_are_there, 2),
    (what_a_gpu_lacks_is_refused_by_name, 2),
    (arrivals_give_the_same_bits, 2),
    (arrivals_give_the_same_bits, 4),
    (the_host_reads_once_for_a_message, 2),
    (the_host_reads_once_for_a_message, 3),
    (a_device_that_fails_ends_the_step, 1),
]
