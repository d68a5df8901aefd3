"""compll: write a gradient compressor in a page, get kernels, a wire format and a DistributedDataParallel hook.

Public names only. They are looked up on first use, so that `import compll` brings in neither torch nor cupy.
"""

from __future__ import annotations

import logging
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from compll.diagnostics import CompllError, InternalError, UnsupportedError
    from compll.runtime.compressor import Compressor
    from compll.runtime.key import Key
    from compll.runtime.load import load
    from compll.runtime.options import SyncOptions
    from compll.runtime.payload import Payload
    from compll.runtime.state import State
    from compll.runtime.stats import SyncStats
    from compll.runtime.sync import SyncState, attach, sync_hook

__version__ = "0.1.0"

_HOMES = {
    "CompllError": "compll.diagnostics",
    "Compressor": "compll.runtime.compressor",
    "InternalError": "compll.diagnostics",
    "Key": "compll.runtime.key",
    "Payload": "compll.runtime.payload",
    "State": "compll.runtime.state",
    "SyncOptions": "compll.runtime.options",
    "SyncState": "compll.runtime.sync",
    "SyncStats": "compll.runtime.stats",
    "UnsupportedError": "compll.diagnostics",
    "attach": "compll.runtime.sync",
    "load": "compll.runtime.load",
    "sync_hook": "compll.runtime.sync",
}

__all__ = [
    "CompllError",
    "Compressor",
    "InternalError",
    "Key",
    "Payload",
    "State",
    "SyncOptions",
    "SyncState",
    "SyncStats",
    "UnsupportedError",
    "attach",
    "load",
    "sync_hook",
]

logging.getLogger("compll").addHandler(logging.NullHandler())


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module `compll` has no name `{name}`; it has {', '.join(__all__)}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
