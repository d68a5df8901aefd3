"""Where the worker computes: on the host, or on a CUDA stream of its own beside DDP's. The only user of torch.cuda's
streams and events in synchronisation.

On a GPU, work is enqueued and not done when a call returns. Whoever needs it on the device lets a stream wait for an
event; what the host needs to know (a bucket is there, a collective is complete) a thread of `Arrivals` waits for. The
callbacks of NCCL's futures run when a collective is enqueued, and its `wait()` holds up the current stream only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from threading import Lock
from typing import Any, Protocol

import torch

from compll.diagnostics import CompllError, UnsupportedError
from compll.runtime.arrivals import Arrivals, Then

SUCCESS = 0  # of torch's WorkResult


class Streams(Protocol):
    """What differs between the host and a GPU. `mark`, `future` are for DDP's thread, the rest for the worker's."""

    @property
    def device(self) -> torch.device: ...

    def working(self) -> AbstractContextManager[object]:
        """Inside, the calling thread computes and allocates where the worker does, on any thread."""

    def mark(self) -> Any:
        """What has been enqueued for a bucket up to now; None where it is already there."""

    def reached(self, mark: Any, then: Then) -> None:
        """Call `then` on some thread when the device has come to a mark."""

    def follow(self, mark: Any, bucket: torch.Tensor) -> None:
        """Let what the worker does from now on see the bucket as it was at the mark."""

    def future(self) -> torch.futures.Future[torch.Tensor]:
        """One whose result, set by the worker, is complete for the streams of whoever waits for it."""

    def complete(self, works: Sequence[Any], then: Then) -> None:
        """Call `then` on some thread when collectives (at least one) are complete, or with what went wrong."""

    def close(self) -> None: ...


class HostStreams:
    """The CPU: what a call was to do is done when it returns, and futures of collectives tell of their end."""

    device = torch.device("cpu")

    def working(self) -> AbstractContextManager[object]:
        return nullcontext()

    def mark(self) -> None:
        return None

    def reached(self, mark: None, then: Then) -> None:
        then(None)

    def follow(self, mark: None, bucket: torch.Tensor) -> None:
        pass

    def future(self) -> torch.futures.Future[torch.Tensor]:
        return torch.futures.Future()

    def complete(self, works: Sequence[Any], then: Then) -> None:
        lock, left = Lock(), len(works)

        def one_is(_: object) -> None:
            nonlocal left
            with lock:
                left -= 1
                last = left == 0
            if last:
                then(None)  # what went wrong is raised by wait()

        for work in works:
            work.get_future().add_done_callback(one_is)

    def close(self) -> None:
        pass


class CudaStreams:
    """One GPU. Two threads wait for it, since buckets and collectives come in no common order."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._stream: torch.cuda.Stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        # holds nothing but waits, so that they wait for nothing else
        self._arriving: torch.cuda.Stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._buckets = Arrivals("compll-buckets", lambda: torch.cuda.device(device))
        self._collectives = Arrivals("compll-arrivals", lambda: self._on(self._arriving))

    def working(self) -> AbstractContextManager[object]:
        return self._on(self._stream)

    @contextmanager
    def _on(self, stream: torch.cuda.Stream) -> Iterator[None]:
        with torch.cuda.device(self.device), torch.cuda.stream(stream):
            yield

    def mark(self) -> torch.cuda.Event:
        """An event on DDP's current stream. Raises UnsupportedError while a CUDA graph is captured."""
        if torch.cuda.is_current_stream_capturing():
            raise UnsupportedError("compll cannot synchronise while a CUDA graph is captured: the host reads flags")
        return _event_on(torch.cuda.current_stream(self.device))

    def reached(self, mark: torch.cuda.Event, then: Then) -> None:
        self._buckets.expect(mark.synchronize, then)

    def follow(self, mark: torch.cuda.Event, bucket: torch.Tensor) -> None:
        """DDP keeps a bucket until its future is complete; a step that fails completes it while work is enqueued."""
        self._stream.wait_event(mark)
        bucket.record_stream(self._stream)

    def future(self) -> torch.futures.Future[torch.Tensor]:
        return torch.futures.Future(devices=[self.device])

    def complete(self, works: Sequence[Any], then: Then) -> None:
        self._collectives.expect(lambda: self._wait_for(works), then)

    def _wait_for(self, works: Sequence[Any]) -> None:
        """Block the thread of arrivals, without spinning, until the device has done them."""
        for work in works:
            work.wait()
        _event_on(self._arriving).synchronize()
        for work in works:
            _check(work)

    def close(self) -> None:
        self._buckets.close()
        self._collectives.close()


def _event_on(stream: torch.cuda.Stream) -> torch.cuda.Event:
    """Of what the stream has to do so far; whoever synchronises with it sleeps, and does not spin."""
    event: torch.cuda.Event = torch.cuda.Event(blocking=True)  # type: ignore[no-untyped-call]
    event.record(stream)
    return event


def _check(work: Any) -> None:
    """Raise when a collective ended in another way than by being done: aborted, it leaves what was in memory before."""
    work.is_completed()  # looks for NCCL's asynchronous errors,
    work.wait()  # which this raises
    result = work.get_future_result()  # and this is what torch's watchdog says, before it aborts
    if result.done() and int(result.value()) != SUCCESS:
        raise CompllError(f"an NCCL collective failed or was aborted (torch's WorkResult {int(result.value())})")


def open_streams(device: torch.device) -> Streams:
    return CudaStreams(device) if device.type == "cuda" else HostStreams()


def uploaded(numbers: Sequence[float], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """Numbers of the host as a tensor on `device`, in the current stream's order; the host waits for nothing."""
    on_gpu = device.type == "cuda"
    return torch.tensor(numbers, dtype=dtype, pin_memory=on_gpu).to(device, non_blocking=on_gpu)
