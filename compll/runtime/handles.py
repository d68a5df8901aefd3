"""Compressors by a text that says what they are, for operators, whose arguments are tensors, numbers and texts.

A handle is made of contents: compressors that do the same have the same one, in every process, so that code which
torch.compile keeps on disk finds the right compressor in the next process. Nothing is kept alive from here.
"""

from __future__ import annotations

import hashlib
from threading import Lock
from typing import Generic, TypeVar
from weakref import WeakValueDictionary

from compll.diagnostics import CompllError

T = TypeVar("T")


def content_handle(name: str, *contents: object) -> str:
    """`name` and a hash of contents whose texts say all there is to them."""
    return f"{name}-{hashlib.sha256(repr(contents).encode()).hexdigest()[:16]}"


class Handles(Generic[T]):
    """Living objects by handle. Of several with one handle the first is found, as long as any of them keeps it."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._living: WeakValueDictionary[str, T] = WeakValueDictionary()
        self._lock = Lock()

    def register(self, handle: str, thing: T) -> T | None:
        """What was registered before under the handle; who registers another keeps it, since it is what is found."""
        with self._lock:
            found = self._living.setdefault(handle, thing)
        return None if found is thing else found

    def find(self, handle: str) -> T:
        """Raises CompllError where nothing with this handle lives."""
        found = self._living.get(handle)
        if found is None:
            raise CompllError(f"no {self._kind} has the handle `{handle}`: it must live as long as operators name it")
        return found
