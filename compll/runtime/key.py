"""The key of a random draw: which seed, step, gradient and rank it belongs to. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass, fields

from compll.diagnostics import CompllError

WORD_LIMIT = 1 << 32
RANK_LIMIT = (1 << 20) - 1
HOP_LIMIT = 1 << 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """Equal input and equal key give equal bytes (docs/numerics.md).

    `gradient` is the parameter's index in `named_parameters()` order; `rank` matters to private draws only.
    Raises CompllError when seed, step or gradient is not in [0, 2^32), or rank not in [0, 2^20 - 1).
    """

    seed: int = 0
    step: int = 0
    gradient: int = 0
    rank: int = 0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            limit = RANK_LIMIT if field.name == "rank" else WORD_LIMIT
            if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < limit:
                raise CompllError(f"key: `{field.name}` needs a whole number in [0, {limit}), got {value!r}")

    def owner(self, hop: int = 0) -> int:
        """The key word of a private draw of the `hop`-th re-encoding (0: the own encode); shared draws use 0."""
        if not 0 <= hop < HOP_LIMIT:
            raise CompllError(f"key: `hop` needs a whole number in [0, {HOP_LIMIT}), got {hop!r}")
        return (self.rank + 1) | hop << 20
