"""C identifiers for the program's own words: readable, never a keyword, never twice in one scope."""

from __future__ import annotations

import re
from collections.abc import Iterable

_KEYWORDS = frozenset(
    """
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char class compl concept const const_cast
    constexpr continue decltype default delete do double dynamic_cast else enum explicit export extern false float for
    friend goto if inline int long mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected
    public register reinterpret_cast requires restrict return short signed sizeof static static_assert static_cast
    struct switch template this thread_local throw true try typedef typeid typename union unsigned using virtual void
    volatile wchar_t while xor xor_eq main std compll assert errno linux unix NULL
    """.split()
)


def identifier(name: str) -> str:
    """The name with every character C does not know replaced, and an underscore behind a keyword."""
    text = re.sub(r"[^0-9A-Za-z_]", "_", name)
    if not text or text[0].isdigit():
        text = f"v{text}"
    return f"{text}_" if text in _KEYWORDS else text


class Names:
    """The identifiers of one scope. `reserved` ones belong to the surrounding text."""

    def __init__(self, reserved: Iterable[str] = ()):
        self._taken = set(reserved)

    def fresh(self, name: str) -> str:
        """The name as an identifier, with the lowest suffix (_2, _3, ..) that makes it new."""
        wanted = identifier(name)
        candidate = wanted
        number = 2
        while candidate in self._taken:
            candidate = f"{wanted}_{number}"
            number += 1
        self._taken.add(candidate)
        return candidate

    def child(self) -> Names:
        """An inner scope that sees this one's names as they are now."""
        return Names(self._taken)
