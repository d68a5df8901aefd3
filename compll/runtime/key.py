"""The key of a random draw: which seed, step, gradient and rank it belongs to. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass, fields

from compll.diagnostics import CompllError

WORD_LIMIT = 1 << 32
LIMITS = {"rank": (1 << 20) - 1, "hop": 1 << 12, "base": 1 << 63}


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """Equal input and equal key give equal bytes (docs/numerics.md).

    `gradient` is the parameter's index in `named_parameters()` order; `rank` matters to private draws only. `hop`
    tells re-encodings on the way (from 1 on) from a rank's own encode (0), `base` is the offset in elements of a
    partition in its gradient. Raises CompllError when seed, step or gradient is not in [0, 2^32), rank not in
    [0, 2^20 - 1), hop not in [0, 4096) or base not in [0, 2^63).
    """

    seed: int = 0
    step: int = 0
    gradient: int = 0
    rank: int = 0
    hop: int = 0
    base: int = 0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            limit = LIMITS.get(field.name, WORD_LIMIT)
            if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < limit:
                raise CompllError(f"key: `{field.name}` needs a whole number in [0, {limit}), got {value!r}")

    @property
    def owner(self) -> int:
        """The key word of private draws; shared draws use 0."""
        return (self.rank + 1) | self.hop << 20
