"""The worker thread on a fake device and fake collectives: the order of a step, and its ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from runtime.fake_streams import FakeDevice, install

from compll.runtime import arrivals
from compll.runtime.executor import Bucket, Settings
from compll.runtime.gradients import GradientSpec, Slice
from compll.runtime.routing import Travel
from compll.runtime.streams import CudaStreams
from compll.runtime.tasks import Graph, Kind, chain, compute, transfer
from compll.runtime.worker import Worker

WAIT_S = 20
SPEC = GradientSpec(name="first", index=0, shape=torch.Size((2,)), dtype=torch.float32, compressible=True)


class OneWork:
    """A collective on the fake device."""

    def __init__(self, device: FakeDevice) -> None:
        self._device = device

    def wait(self) -> None:
        self._device.note("work.wait")

    def is_completed(self) -> bool:
        return True

    def get_future_result(self) -> torch.futures.Future[int]:
        return torch._C.Future([])  # type: ignore[no-any-return]


@dataclass
class FakeCollectives:
    """Notes how it was closed; what is unfinished then is `aborted`."""

    bytes_sent: int = 0
    closed: list[bool] = field(default_factory=list)
    aborted: Callable[[], None] = lambda: None

    def close(self, *, unfinished: bool = False) -> None:
        self.closed.append(unfinished)
        if unfinished:
            self.aborted()


@dataclass
class Stage:
    """A worker whose only unit is encode, a collective and decode."""

    device: FakeDevice
    patience_s: float | None = None
    trouble: Exception | None = None

    def __post_init__(self) -> None:
        self.streams = CudaStreams(torch.device("cuda:0"))
        self.collectives = FakeCollectives()
        codec: Any = SimpleNamespace(
            step=0, rank=0, threads=1, end_step=lambda: None,
            own=SimpleNamespace(first=SimpleNamespace(name="topk")),
        )  # fmt: skip
        routing = SimpleNamespace(open=self._open, pool=lambda slices: iter(()))
        following: Any = SimpleNamespace(routing=routing, after_step=lambda recent: None)
        group: Any = self.collectives
        self.worker = Worker(
            Settings(
                codec=codec, following=following, collectives=[group], streams=self.streams, start_step=0,
                patience_s=self.patience_s,
            )
        )  # fmt: skip

    def _open(self, bucket: int, slices: Sequence[Slice], *, compressing: bool) -> Iterator[Travel]:
        yield Travel(strategy="allgather", parts=[], graph=self._graph())

    def _graph(self) -> Graph:
        def encode() -> None:
            self.device.note("encode")

        def send(done: Callable[[], None]) -> Any:
            self.device.note("send")
            if self.trouble is not None:
                raise self.trouble
            self.streams.complete([OneWork(self.device)], lambda problem: done())
            return SimpleNamespace(wait=lambda: self.device.note("handle.wait"))

        decode = compute(Kind.DECODE, lambda: self.device.note("decode"))
        return chain(compute(Kind.ENCODE, encode), transfer(send), decode)

    def submit(self) -> torch.futures.Future[torch.Tensor]:
        buffer = torch.zeros(2)
        bucket = Bucket(
            index=0, last=True, slices=[Slice(spec=SPEC, tensor=buffer)], future=self.streams.future(), buffer=buffer,
            mark=self.streams.mark(),
        )  # fmt: skip
        self.worker.submit(bucket)
        return bucket.future

    def failed(self, future: torch.futures.Future[torch.Tensor]) -> str:
        """What backward() raises, once the future is there; then the thread has ended."""
        future.wait()
        self.worker._thread.join(WAIT_S)
        assert not self.worker._thread.is_alive()
        with pytest.raises(RuntimeError) as caught:
            self.worker.failure.check()
        return str(caught.value)


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeDevice]:
    device = FakeDevice()
    install(device, monkeypatch)
    yield device
    device.release()


def test_a_step_in_order(device: FakeDevice) -> None:
    stage = Stage(device)
    assert torch.equal(stage.submit().wait(), torch.zeros(2))
    stage.worker.close()
    assert stage.collectives.closed == [False]
    by_worker = [(stream, call) for thread, stream, call in device.calls if thread == "compll-sync"]
    assert by_worker == [
        ("worker", "wait_event worker default"), ("worker", "record_stream worker"), ("worker", "encode"),
        ("worker", "send"), ("worker", "handle.wait"), ("worker", "decode"), ("worker", "set_result"),
    ]  # fmt: skip
    order = [call for _, _, call in device.calls]
    assert order.index("synchronize default") < order.index("encode"), "nothing is done before the device has a bucket"
    assert order.index("synchronize arriving") < order.index("handle.wait")
    ddp = [(stream, call) for thread, stream, call in device.calls if thread == "MainThread"]
    assert ddp == [("default", "future cuda:0"), ("default", "record default")], "DDP's thread waits for nothing"


def test_a_collective_that_hangs_is_given_up(device: FakeDevice) -> None:
    """As when a rank died: its event never comes. The group is aborted, which frees the thread that waits."""
    device.held = {"arriving"}
    stage = Stage(device, patience_s=0.3)
    stage.collectives.aborted = device.release
    text = stage.failed(stage.submit())
    assert "compressor `topk` failed on rank 0 in step 0 while" in text
    assert "a collective was not complete after 0.3 s, the timeout of the process group" in text
    assert stage.collectives.closed == [True]


@pytest.mark.parametrize("where", ["bucket", "send"])
def test_a_failure_frees_ddp(where: str, device: FakeDevice) -> None:
    problem = RuntimeError("CUDA error: the launch timed out")
    stage = Stage(device, trouble=problem if where == "send" else None)
    if where == "bucket":
        device.problem = lambda: problem
    text = stage.failed(stage.submit())
    assert "the launch timed out" in text
    with pytest.raises(RuntimeError, match="the launch timed out"):
        stage.submit()


def test_closing_before_the_device_has_the_bucket(device: FakeDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrivals, "END_WITHIN_S", 0.1)
    device.held = {"default"}
    stage = Stage(device)
    future = stage.submit()
    stage.worker.close()
    assert future.done() and not device.noted("encode")
