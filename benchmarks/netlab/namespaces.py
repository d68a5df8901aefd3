"""Network namespaces without names: one lives as long as some process is in it or holds it open.

So nothing remains when the process that made it ends, whatever ended it, and two runs cannot get into each other's way.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

CLONE_NEWNET = 0x40000000
PR_SET_PDEATHSIG = 1

T = TypeVar("T")

_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True)
class Namespace:
    """One network namespace, held open by this process; other processes of root enter it by `path`."""

    descriptor: int

    @property
    def path(self) -> str:
        return f"/proc/{os.getpid()}/fd/{self.descriptor}"

    def run(self, *command: str) -> None:
        """Run a command inside. Raises RuntimeError with what it said when it fails."""
        done = self._inside(lambda: subprocess.run(command, capture_output=True, text=True, check=False))
        if done.returncode:
            raise RuntimeError(f"`{' '.join(command)}` failed: {done.stderr.strip() or done.returncode}")

    def start(self, command: Sequence[str], environment: Mapping[str, str]) -> subprocess.Popen[str]:
        """Start a command inside; its output and errors go to one pipe."""
        return self._inside(
            lambda: subprocess.Popen(
                command, env=dict(environment), text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
            )
        )

    def close(self) -> None:
        os.close(self.descriptor)

    def _inside(self, action: Callable[[], T]) -> T:
        def entered() -> T:
            enter(self.path)
            return action()

        return _in_thread(entered)


def new_namespace() -> Namespace:
    """An empty one. Raises OSError where that is not allowed."""

    def make() -> Namespace:
        _check(_libc.unshare(CLONE_NEWNET))
        return Namespace(os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC))

    return _in_thread(make)


def enter(path: str) -> None:
    """Move the calling thread, and what it starts from now on, into the namespace at `path`; raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        _check(_libc.setns(descriptor, CLONE_NEWNET))
    finally:
        os.close(descriptor)


def die_with_parent() -> None:
    """Have the calling process killed when the one that started it ends."""
    _check(_libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0))


def _check(result: int) -> None:
    if result:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _in_thread(action: Callable[[], T]) -> T:
    """Run in a thread of its own, whose namespace ends with it: the caller stays where it is."""
    results: list[T] = []
    problems: list[BaseException] = []

    def body() -> None:
        try:
            results.append(action())
        except BaseException as problem:
            problems.append(problem)

    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    if problems:
        raise problems[0]
    return results[0]
