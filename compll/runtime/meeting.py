"""How ranks begin together: what one of them cannot do, none does, and all say which and why.

They talk through the process group's store and not by collectives: a collective that a rank does not take part in
hangs, or mixes with whatever that rank does instead; a store can be asked who is missing, and what was said by
somebody who has left.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any, TypeVar

import torch.distributed as dist

from compll.diagnostics import CompllError
from compll.runtime.groups import group_timeout

T = TypeVar("T")

DONE, FAILED = "done", "failed: "
TO_BE_HEARD = timedelta(seconds=5)


class Meeting:
    """Of the ranks of `group`, all of which make it and call the same methods; none is waited for longer than the
    group's timeout."""

    def __init__(self, group: Any) -> None:
        self._rank, self._world_size = dist.get_rank(group), dist.get_world_size(group)
        store = group.get_group_store()
        number = store.add(f"compll/{self._rank}", 1)  # the meetings of a group are counted alike on all ranks
        self._store: Any = dist.PrefixStore(f"compll/{number}", store)  # type: ignore[attr-defined]
        self._timeout = group_timeout(group, group._device_types[0])
        self._round = 0

    def together(self, work: Callable[[], T]) -> T:
        """What `work` returns, when it has returned on all ranks. Raises what it raises, and on the other ranks
        CompllError naming the first rank that failed and its problem, or the ranks that did not come."""
        self._round += 1
        try:
            result = work()
        except BaseException as problem:
            self._say(FAILED + (str(problem) or type(problem).__name__))
            if isinstance(problem, Exception):
                self._let_others_hear()
            raise
        self._say(DONE)
        words = self._words()
        failed = [rank for rank, word in enumerate(words) if word.startswith(FAILED)]
        if failed:
            self._let_others_hear()
            raise CompllError(f"rank {failed[0]} cannot take part: {words[failed[0]].removeprefix(FAILED)}")
        return result

    def agree(self, digest: str, what: str) -> None:
        """Raise CompllError on every rank when the ranks' digests differ. `what` says what they are digests of."""
        self._round += 1
        self._say(digest)
        words = self._words()
        different = [rank for rank, word in enumerate(words) if word != words[0]]
        if different:
            self._let_others_hear()
            raise CompllError(f"all ranks need the same {what}; it differs between rank 0 and rank {different[0]}")

    # --- helpers -----------------------------------------------------------------------------------------------------

    def _say(self, word: str, ending: str = "") -> None:
        with suppress(RuntimeError):  # the store is lost, as whoever reads there next finds out and says
            self._store.set(f"{self._round}/{self._rank}{ending}", word)

    def _keys(self, ending: str = "") -> list[str]:
        return [f"{self._round}/{rank}{ending}" for rank in range(self._world_size)]

    def _words(self) -> list[str]:
        """What every rank has said in this round."""
        keys = self._keys()
        try:
            self._store.wait(keys, self._timeout)
            return [word.decode() for word in self._all(keys)]
        except RuntimeError as problem:
            raise CompllError(self._missing(keys, problem)) from None

    def _all(self, keys: Sequence[str]) -> Sequence[bytes]:
        if self._store.has_extended_api():
            found: list[bytes] = self._store.multi_get(list(keys))
            return found
        return [self._store.get(key) for key in keys]

    def _missing(self, keys: Sequence[str], problem: Exception) -> str:
        try:
            absent = [str(rank) for rank, key in enumerate(keys) if not self._store.check([key])]
        except RuntimeError:
            return f"the store of the process group is lost, its host has probably ended: {problem}"
        return (
            "all ranks of the DDP object's process group need to make a SyncState together; after "
            f"{self._timeout.total_seconds():g} s, the group's timeout, still missing: rank {', '.join(absent)}"
        )

    def _let_others_hear(self) -> None:
        """Who raises now may end the process, and take the store along before all have read it."""
        self._say("", "/heard")
        with suppress(RuntimeError):
            self._store.wait(self._keys("/heard"), TO_BE_HEARD)
