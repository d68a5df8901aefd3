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
    volatile wchar_t while xor xor_eq main std compll assert errno linux unix
    threadIdx blockIdx blockDim gridDim warpSize
    """.split()
)


#: How C's headers spell macros (`EOF`, `NAN`, `INT_MAX`), which no scope keeps out.
_MACRO = re.compile(r"[A-Z][A-Z0-9_]+")


def identifier(name: str) -> str:
    """The name with every character C does not know replaced, and an underscore behind what means something already.

    What begins with an underscore (`__func__`) is the compiler's, and gets a letter before it.
    """
    text = re.sub(r"[^0-9A-Za-z_]", "_", name)
    if not text or text[0].isdigit() or text[0] == "_":
        text = f"v{text}"
    return f"{text}_" if text in _KEYWORDS or _MACRO.fullmatch(text) else text


class Names:
    """The identifiers of one scope. `reserved` ones belong to the surrounding text, `outer` is the scope around it.

    Both scopes may grow while the text is made: an inner name never hides one of the outer scope, early or late.
    """

    def __init__(self, reserved: Iterable[str] = (), outer: Names | None = None):
        self._taken = set(reserved)
        self._inside: set[str] = set()
        self._outer = outer

    def fresh(self, name: str) -> str:
        """The name as an identifier, with the lowest suffix (_2, _3, ..) that makes it new."""
        wanted = identifier(name)
        candidate = wanted
        number = 2
        while candidate in self._inside or self._sees(candidate):
            candidate = f"{wanted}_{number}"
            number += 1
        self._taken.add(candidate)
        if self._outer is not None:
            self._outer._hold(candidate)
        return candidate

    def child(self) -> Names:
        """An inner scope."""
        return Names(outer=self)

    def _sees(self, name: str) -> bool:
        return name in self._taken or (self._outer is not None and self._outer._sees(name))

    def _hold(self, name: str) -> None:
        self._inside.add(name)
        if self._outer is not None:
            self._outer._hold(name)
