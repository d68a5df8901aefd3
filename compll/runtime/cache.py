"""A disk cache by content: files that are expensive to make, made once, safe with many processes at once.

What is cached is named by a hash of everything it depends on, so nothing ever goes stale and nothing is locked: whoever
finds a file missing makes it under a temporary name and moves it into place. Never inside the package.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

import platformdirs


def cache_directory() -> Path:
    """$COMPLL_CACHE, or the user's cache folder for compll."""
    return Path(os.environ.get("COMPLL_CACHE") or platformdirs.user_cache_dir("compll"))


def content_hash(parts: Iterable[str | bytes]) -> str:
    """32 hexadecimal digits that depend on every part and on where each ends."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(f"{len(data)}:".encode() + data)
    return digest.hexdigest()[:32]


def cached(name: str, make: Callable[[Path], None]) -> Path:
    """The cached file `name`; if it is missing, `make(path)` writes it to a temporary path in the same folder first.

    Raises what `make` raises; then nothing is left behind.
    """
    target = cache_directory() / name
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, text = tempfile.mkstemp(prefix=f"{target.stem}.", suffix=".tmp", dir=target.parent)
    os.close(handle)
    temporary = Path(text)
    try:
        make(temporary)
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)
    return target
