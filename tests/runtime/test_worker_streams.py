"""The worker's streams: who waits for what, in which order, and what becomes of failures. On a fake device."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from queue import SimpleQueue
from threading import Event
from typing import Any

import pytest
import torch
from runtime.fake_streams import FakeDevice, install

from compll.diagnostics import CompllError, UnsupportedError
from compll.runtime import arrivals
from compll.runtime.arrivals import Arrivals
from compll.runtime.streams import CudaStreams, HostStreams, uploaded

WAIT_S = 20


class FakeWork:
    """A collective of NCCL: `wait` makes the current stream wait. `result` is what torch's watchdog says of it."""

    def __init__(self, device: FakeDevice, name: str = "a", problem: Exception | None = None, result: int = -1) -> None:
        self._device, self._name, self._problem, self._result = device, name, problem, result

    def wait(self) -> None:
        self._device.note(f"work.wait {self._name}")
        if self._problem is not None:
            raise self._problem

    def is_completed(self) -> bool:
        return True

    def get_future(self) -> None:
        raise AssertionError("its callbacks run when NCCL's work is enqueued, not when it is done")

    def get_future_result(self) -> torch.futures.Future[int]:
        future: torch.futures.Future[int] = torch._C.Future([])
        if self._result >= 0:
            future.set_result(self._result)
        return future


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> FakeDevice:
    device = FakeDevice()
    install(device, monkeypatch)
    return device


@pytest.fixture
def streams(device: FakeDevice) -> Iterator[CudaStreams]:
    streams = CudaStreams(torch.device("cuda:0"))
    yield streams
    device.release()
    streams.close()


def told() -> tuple[Callable[[Any], None], Callable[[], Any]]:
    """What to call with an outcome, and how to wait for it."""
    outcomes: SimpleQueue[Any] = SimpleQueue()
    return outcomes.put, lambda: outcomes.get(timeout=WAIT_S)


def test_a_bucket_is_followed_from_where_ddp_was(device: FakeDevice, streams: CudaStreams) -> None:
    put, outcome = told()
    mark = streams.mark()
    streams.reached(mark, put)
    assert outcome() is None
    with streams.working():
        streams.follow(mark, torch.zeros(3))
        streams.future().set_result(torch.zeros(3))
    assert device.calls == [
        ("MainThread", "default", "record default"),
        ("compll-buckets", "default", "synchronize default"),
        ("MainThread", "worker", "wait_event worker default"),
        ("MainThread", "worker", "record_stream worker"),
        ("MainThread", "worker", "future cuda:0"),
        ("MainThread", "worker", "set_result"),
    ]


def test_a_collective_is_complete_when_the_device_says_so(device: FakeDevice, streams: CudaStreams) -> None:
    device.held = {"arriving"}
    put, outcome = told()
    streams.complete([FakeWork(device, "a"), FakeWork(device, "b")], put)
    assert device.enqueued.get(timeout=WAIT_S) == "arriving"
    assert not device.noted("synchronize")
    device.release()
    assert outcome() is None
    there = ("compll-arrivals", "arriving")
    assert device.calls[:4] == [
        (*there, "work.wait a"), (*there, "work.wait b"), (*there, "record arriving"), (*there, "synchronize arriving"),
    ]  # fmt: skip


def test_a_late_bucket_holds_no_collective_up(device: FakeDevice, streams: CudaStreams) -> None:
    """The host runs ahead of the device: buckets are handed out long before they are there."""
    device.held = {"default"}
    streams.reached(streams.mark(), lambda problem: None)
    put, outcome = told()
    streams.complete([FakeWork(device)], put)
    assert outcome() is None
    assert [call for _, _, call in device.noted("synchronize")] == ["synchronize arriving"]


@pytest.mark.parametrize("how", ["waiting", "device", "watchdog"])
def test_what_goes_wrong_is_told(how: str, device: FakeDevice, streams: CudaStreams) -> None:
    works = {
        "waiting": FakeWork(device, problem=RuntimeError("NCCL: remote process exited")),
        "device": FakeWork(device),
        "watchdog": FakeWork(device, result=1),
    }
    if how == "device":
        device.problem = lambda: RuntimeError("CUDA error: an illegal memory access was encountered")
    put, outcome = told()
    streams.complete([works[how]], put)
    expected = {"waiting": "remote process", "device": "illegal memory", "watchdog": "WorkResult 1"}
    assert expected[how] in str(outcome())
    device.problem = lambda: None
    streams.complete([FakeWork(device, result=0)], put)
    assert outcome() is None, "the thread goes on"


def test_a_captured_backward_is_refused(device: FakeDevice, streams: CudaStreams) -> None:
    device.capturing = True
    with pytest.raises(UnsupportedError, match="while a CUDA graph is captured"):
        streams.mark()


def test_the_host_has_nothing_to_wait_for() -> None:
    streams, seen = HostStreams(), []
    assert streams.mark() is None
    streams.reached(None, seen.append)
    assert seen == [None]
    futures = [torch.futures.Future[torch.Tensor]() for _ in range(2)]
    works = [type("Work", (), {"get_future": lambda self, f=future: f})() for future in futures]
    streams.complete(works, seen.append)
    futures[1].set_result(torch.zeros(1))
    assert seen == [None]
    futures[0].set_result(torch.zeros(1))
    assert seen == [None, None]


def test_numbers_go_up_as_they_are() -> None:
    found = uploaded([1, 0, 255], torch.uint8, torch.device("cpu"))
    assert torch.equal(found, torch.tensor([1, 0, 255], dtype=torch.uint8))
    assert uploaded([], torch.uint8, torch.device("cpu")).shape == (0,)


# --- the threads -----------------------------------------------------------------------------------------------------


def test_arrivals_come_in_the_order_asked_for() -> None:
    waiting, (put, outcome) = Arrivals("test", nullcontext), told()
    gates = [Event() for _ in range(3)]
    for number, gate in enumerate(gates):
        waiting.expect(gate.wait, lambda problem, number=number: put((number, problem)))
    for gate in reversed(gates):
        gate.set()
    assert [outcome() for _ in gates] == [(number, None) for number in range(3)]
    waiting.close()


def test_arrivals_end_though_nothing_arrives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrivals, "END_WITHIN_S", 0.1)
    waiting, gate, (put, outcome) = Arrivals("test", nullcontext), Event(), told()
    waiting.expect(gate.wait, put)
    waiting.close()
    waiting.expect(gate.wait, lambda problem: put(CompllError("too late")))
    gate.set()
    assert outcome() is None
    waiting._thread.join(WAIT_S)
    assert not waiting._thread.is_alive()


def test_arrivals_that_nobody_asked_for_have_no_thread() -> None:
    waiting = Arrivals("test", nullcontext)
    waiting.close()
    assert not waiting._thread.is_alive()
