"""How much of the machine other work takes while something is measured."""

from __future__ import annotations

import os
import resource
import time
from pathlib import Path

IDLE_FIELDS = (3, 4)  # idle and waiting for disks, in /proc/stat
COUNTED = 8  # guests' time is in users' already


class OthersWatch:
    """Watches from when it is made. Linux only."""

    def __init__(self) -> None:
        self._busy = _busy_s()
        self._own = _own_s()
        self._begin = time.monotonic()

    def share(self) -> float:
        """The share of all cores that neither idled nor ran this process or children of it that have ended. The
        kernel's own work for the network counts as others'."""
        others = (_busy_s() - self._busy) - (_own_s() - self._own)
        return max(0.0, others / ((time.monotonic() - self._begin) * (os.cpu_count() or 1)))


def _busy_s() -> float:
    first = Path("/proc/stat").read_text().partition("\n")[0]
    ticks = [int(text) for text in first.split()[1 : 1 + COUNTED]]
    busy = sum(count for position, count in enumerate(ticks) if position not in IDLE_FIELDS)
    return busy / os.sysconf("SC_CLK_TCK")


def _own_s() -> float:
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)
