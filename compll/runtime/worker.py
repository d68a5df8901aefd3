"""The one thread that encodes, issues collectives and decodes, in order. It sleeps until an event comes.

On the CPU, DDP calls its hook on the thread that runs backward: what is done there overlaps nothing. On a GPU that
thread runs ahead of the device, and a bucket that it has handed out is yet to come: the worker takes it up when the
device has it, since it would have to wait for it otherwise, and with it whatever else there is to do.
"""

from __future__ import annotations

import logging
import time
import weakref
from collections import deque
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from queue import Empty, SimpleQueue
from threading import Lock, Thread, current_thread
from typing import Union

import torch

from compll.diagnostics import CompllError
from compll.runtime.executor import Bucket, Executor, Settings
from compll.runtime.schedule import Ended, Run, Schedule
from compll.runtime.strategies.agreement import Different

log = logging.getLogger("compll")

END_WITHIN_S = 5.0


class Stop:
    """Ends the thread."""


@dataclass(frozen=True, slots=True)
class Reached:
    """The device has the next bucket since `at` (time.perf_counter), or has failed."""

    at: float
    problem: Exception | None


Message = Union[Bucket, Reached, Ended, Stop]


class Failure:
    """Why synchronisation ended, once it has; shared with the futures that DDP waits for."""

    def __init__(self) -> None:
        self.message = ""
        self.in_step = False  # whether states are those of no step
        self.known = False  # whether all ranks find out by themselves
        self.lock = Lock()

    def check(self) -> None:
        """Raises RuntimeError, which is what comes out of `backward()`."""
        if self.message:
            raise RuntimeError(self.message)


class Worker:
    """Owns the thread, which ends with it. After a failure every bucket fails with the same message."""

    def __init__(self, settings: Settings) -> None:
        self.failure = Failure()
        self._queue: SimpleQueue[Message] = SimpleQueue()
        self.executor = Executor(settings, self._queue.put)
        thread = _Thread(self._queue, self.executor, settings, self.failure)
        self._thread = Thread(target=thread.serve, name="compll-sync", daemon=True)
        self._thread.start()
        weakref.finalize(self, _end, self._queue, self._thread)

    def submit(self, bucket: Bucket) -> None:
        """Hand over a bucket; its future is completed when the whole step is done. Raises after a failure."""
        with self.failure.lock:
            self.failure.check()
            self._queue.put(bucket)

    def close(self) -> None:
        """End the thread and wait for it; buckets that still come are refused."""
        with self.failure.lock:
            self.failure.message = self.failure.message or "this SyncState is closed"
            self._queue.put(Stop())
        self._thread.join()


def _end(queue: SimpleQueue[Message], thread: Thread) -> None:
    """Runs at the latest when the interpreter ends, and waits: a thread that is inside torch after that ends the
    process with SIGABRT, as do collectives that complete then."""
    queue.put(Stop())
    if thread is not current_thread():  # garbage collection runs on any thread
        thread.join(END_WITHIN_S)


@dataclass(frozen=True, slots=True)
class _Thread:
    """What the thread works on; it must not hold the Worker, which would then never go away."""

    queue: SimpleQueue[Message]
    executor: Executor
    settings: Settings
    failure: Failure
    coming: deque[Bucket] = field(default_factory=deque)  # handed out, but not there yet

    def serve(self) -> None:
        torch.set_num_threads(self.settings.codec.threads)
        try:
            with self.settings.streams.working():
                self._work()
        except Exception as problem:  # whatever it is, DDP must hear of it
            self._fail(problem)
        unfinished = self.failure.in_step and not self.executor.announced
        self.executor.give_up()
        with ExitStack() as end:
            end.callback(self.settings.streams.close)
            if self.failure.known and self.settings.streams.device.type == "cpu":
                return  # whoever closes a connection first takes from the others what they have not read yet
            for collectives in self.settings.collectives:  # a process group keeps threads of its own until then
                end.callback(collectives.close, unfinished=unfinished)

    def _work(self) -> None:
        schedule = Schedule()
        while not isinstance(message := self._next_message(schedule), Stop):
            self._handle(message, schedule)
        if self.executor.unfinished or self.coming:
            raise CompllError("SyncState was closed in the middle of a step")

    def _next_message(self, schedule: Schedule) -> Message:
        """What has come in goes before what is to do: it may be more urgent. Sleeps where there is neither."""
        while True:
            try:
                return self.queue.get_nowait()
            except Empty:
                instruction = schedule.next()
                if instruction is None:
                    return self._sleep()
                self.executor.run(instruction)
                if isinstance(instruction, Run):
                    schedule.handle(Ended(instruction.unit, instruction.task))

    def _sleep(self) -> Message:
        try:
            return self.queue.get(timeout=self.executor.patience)
        except Empty:
            raise CompllError(
                f"a collective was not complete after {self.settings.patience_s:g} s, the timeout of the process group"
            ) from None

    def _handle(self, message: Bucket | Reached | Ended, schedule: Schedule) -> None:
        match message:
            case Bucket():
                self.coming.append(message)
                self.settings.streams.reached(message.mark, partial(_tell_reached, self.queue))
            case Reached(at, problem):
                if problem is not None:
                    raise problem
                self._take_up(self.coming[0], at, schedule)
                self.coming.popleft()  # not before: whoever fails looks here for buckets that DDP waits for
            case Ended():
                self.executor.arrived(message)
                schedule.handle(message)

    def _take_up(self, bucket: Bucket, at: float, schedule: Schedule) -> None:
        if bucket.mark is not None:
            bucket.ready = at
        self.settings.streams.follow(bucket.mark, bucket.buffer)
        for event in self.executor.accept(bucket):
            schedule.handle(event)

    def _fail(self, problem: Exception) -> None:
        """Fail this step's buckets and those that still come, and give the process group up."""
        log.error("synchronisation failed", exc_info=problem)
        codec = self.settings.codec
        with self.failure.lock:
            self.failure.in_step, self.failure.known = True, isinstance(problem, Different)
            self.failure.message = (
                f"compressor `{codec.own.first.name}` failed on rank {codec.rank} "
                f"in step {codec.step} while {self.executor.doing or 'starting'}: {problem}"
            )
        waiting = [*self.executor.unfinished, *self.coming]
        while not self.queue.empty():
            later = self.queue.get()
            if isinstance(later, Bucket):
                waiting.append(later)
        for bucket in waiting:
            if not bucket.future.done():
                bucket.future.set_result(torch.empty(0))  # a sentinel: what DDP sees is raised from the failure


def _tell_reached(queue: SimpleQueue[Message], problem: Exception | None) -> None:
    queue.put(Reached(time.perf_counter(), problem))
