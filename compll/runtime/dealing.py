"""Dealing something out among several as evenly as whole numbers can be. Pure."""

from __future__ import annotations


def dealt(total: int, among: int) -> list[int]:
    """What each of `among` gets of `total`, in order; no two differ by more than 1."""
    return [total * (i + 1) // among - total * i // among for i in range(among)]
