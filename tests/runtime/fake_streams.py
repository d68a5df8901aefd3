"""torch.cuda's streams, events and futures without a GPU: every call is noted, and what a stream has to do is done on
a thread of its own, so that an event is ready some time after it was recorded and never at once.

It shows which calls are made, by whom, under which stream and in which order; how a real device takes them, only a GPU
shows (tests/gpu/test_hook.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from threading import Event, Thread, current_thread, local
from typing import Any

import pytest
import torch

from compll.runtime.streams import CudaStreams


class FakeDevice:
    """`calls` are (thread, stream that was current, call). Events on `held` streams are not ready before `release`;
    `enqueued` has the streams on which events were recorded; `problem` is what synchronising with one raises, if
    anything."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str, str]] = []
        self.held: set[str] = set()
        self.problem: Callable[[], Exception | None] = lambda: None
        self.capturing = False
        self._current = local()
        self._streams = 0
        self.enqueued: SimpleQueue[str] = SimpleQueue()
        self._recorded: list[FakeEvent] = []
        self._done: SimpleQueue[FakeEvent] = SimpleQueue()
        Thread(target=self._work, name="device", daemon=True).start()

    def _work(self) -> None:
        while True:
            self._done.get().ready.set()

    @property
    def current(self) -> FakeStream:
        return getattr(self._current, "stream", DEFAULT)

    def note(self, call: str) -> None:
        self.calls.append((current_thread().name, self.current.name, call))

    def stream(self, device: object) -> FakeStream:
        self._streams += 1
        return FakeStream(self, ("worker", "arriving")[(self._streams - 1) % 2])

    @contextmanager
    def use(self, stream: FakeStream) -> Iterator[None]:
        before, self._current.stream = self.current, stream
        try:
            yield
        finally:
            self._current.stream = before

    def recorded(self, event: FakeEvent) -> None:
        self._recorded.append(event)
        self.enqueued.put(event.stream)
        if event.stream not in self.held:
            self._done.put(event)

    def release(self) -> None:
        """Do what was held."""
        self.held = set()
        for event in self._recorded:
            self._done.put(event)

    def noted(self, *names: str) -> list[tuple[str, str, str]]:
        """The calls whose first word is one of these."""
        return [call for call in self.calls if call[2].split()[0] in names]


class FakeStream:
    """torch.cuda.Stream."""

    def __init__(self, device: FakeDevice | None, name: str) -> None:
        self._device, self.name = device, name

    def wait_event(self, event: FakeEvent) -> None:
        assert self._device is not None
        self._device.note(f"wait_event {self.name} {event.stream}")


DEFAULT = FakeStream(None, "default")


class FakeEvent:
    """torch.cuda.Event. One that is not `blocking` would spin."""

    def __init__(self, device: FakeDevice, blocking: bool) -> None:
        self._device, self._blocking = device, blocking
        self.ready, self.stream = Event(), ""

    def record(self, stream: FakeStream) -> None:
        self.stream = stream.name
        self._device.note(f"record {stream.name}")
        self._device.recorded(self)

    def synchronize(self) -> None:
        assert self._blocking
        self.ready.wait()
        if (problem := self._device.problem()) is not None:
            raise problem
        self._device.note(f"synchronize {self.stream}")


class FakeFuture(torch.futures.Future):  # type: ignore[type-arg]
    """torch.futures.Future with devices, which a torch without CUDA does not make."""

    def __init__(self, device: FakeDevice, gpu: torch.device) -> None:
        super().__init__()
        self._device = device
        device.note(f"future {gpu}")

    def set_result(self, result: Any) -> None:
        self._device.note("set_result")
        super().set_result(result)


def install(device: FakeDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put it in the place of torch.cuda, for tensors that are on the CPU."""

    @contextmanager
    def use_device(given: torch.device) -> Iterator[None]:
        yield

    def record_stream(tensor: torch.Tensor, stream: FakeStream) -> None:
        device.note(f"record_stream {stream.name}")

    monkeypatch.setattr(CudaStreams, "future", lambda streams: FakeFuture(device, streams.device))
    monkeypatch.setattr(torch.Tensor, "record_stream", record_stream, raising=False)
    monkeypatch.setattr(torch.cuda, "Stream", device.stream)
    monkeypatch.setattr(torch.cuda, "Event", lambda blocking=False: FakeEvent(device, blocking))
    monkeypatch.setattr(torch.cuda, "device", use_device)
    monkeypatch.setattr(torch.cuda, "stream", device.use)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda given: device.current)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: device.capturing)
