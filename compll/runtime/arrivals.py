"""A thread that waits for one thing after the other and tells of each; it neither polls nor decides."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Union

#: Called with what went wrong, or None, on the thread that has waited; must do no more than note it.
Then = Callable[[Union[Exception, None]], None]
Expected = tuple[Callable[[], object], Then]

END_WITHIN_S = 5.0


class Arrivals:
    """Starts its thread when first asked to wait; `within` is the context that the thread lives in."""

    def __init__(self, name: str, within: Callable[[], AbstractContextManager[object]]) -> None:
        self._queue: SimpleQueue[Expected | None] = SimpleQueue()
        self._thread = Thread(target=_serve, args=(self._queue, within), name=name, daemon=True)
        self._lock = Lock()
        self._started = self._closed = False

    def expect(self, wait: Callable[[], object], then: Then) -> None:
        """Call `wait`, which blocks, behind all those before, and then `then`. After `close` nothing is called."""
        with self._lock:
            if self._closed:
                return
            if not self._started:
                self._started = True
                self._thread.start()
            self._queue.put((wait, then))

    def close(self) -> None:
        """End the thread behind what it still waits for; it is given a few seconds and then left alone."""
        with self._lock:
            self._closed = True
            if not self._started:
                return
            self._queue.put(None)
        self._thread.join(END_WITHIN_S)


def _serve(queue: SimpleQueue[Expected | None], within: Callable[[], AbstractContextManager[object]]) -> None:
    """What the thread does; it must not hold the Arrivals, whose owner ends with it."""
    with within():
        while (expected := queue.get()) is not None:
            wait, then = expected
            try:
                wait()
            except Exception as problem:  # whatever it is, the worker must hear of it
                then(problem)
            else:
                then(None)
            del wait, then, expected  # and with them a bucket's memory, perhaps until the next step
