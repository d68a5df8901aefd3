"""In debug mode, and after loading: before a unit travels, all ranks compare what they are about to exchange."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch

from compll.diagnostics import CompllError
from compll.runtime.collectives import Handle
from compll.runtime.plan import DENSE
from compll.runtime.strategies.base import Context, Unit
from compll.runtime.streams import uploaded
from compll.runtime.tasks import Graph, chain, transfer

TEXT_BYTES = 512


class Different(CompllError):
    """What all ranks find out by themselves when they have the message that says so."""


def compared(context: Context, unit: Unit, strategy: str, graph: Graph) -> Graph:
    """The graph after a comparison that raises Different on every rank when two ranks differ."""
    text = _describe(context, unit, strategy).encode()[:TEXT_BYTES].ljust(TEXT_BYTES, b"\0")
    mine = uploaded(list(text), torch.uint8, context.collectives.device)
    everyone = mine.new_zeros(context.collectives.world_size, TEXT_BYTES)

    def announce(done: Callable[[], None]) -> Handle:
        return _Compared(context.collectives.all_gather(everyone.view(-1), mine, done), everyone)

    first = chain(transfer(announce))
    moved = [replace(t, after=tuple(a + len(first) for a in t.after) or (len(first) - 1,)) for t in graph]
    return (*first, *moved)


def _describe(context: Context, unit: Unit, strategy: str) -> str:
    parts = [f"`{part.piece.name}` {tuple(part.piece.shape)} {part.piece.dtype}" for part in unit.parts]
    sizes = [part.tensor.nbytes for part in unit.parts]
    if strategy not in DENSE:
        sizes = list(unit.payload_sizes(context.codec.compressor))
    text = f"{strategy} in step {context.codec.step}, {sum(sizes)} bytes of {len(parts)} gradients: {', '.join(parts)}"
    return f"[{hashlib.sha256(text.encode()).hexdigest()[:8]}] {text}"  # what is cut off counts, too


@dataclass(frozen=True, slots=True)
class _Compared:
    handle: Handle
    everyone: torch.Tensor

    def wait(self) -> None:
        self.handle.wait()
        first, *others = self.everyone.tolist()
        for rank, theirs in enumerate(others, 1):
            if theirs != first:
                raise Different(
                    f"ranks are about to exchange different things: rank 0 {_text(first)}; rank {rank} {_text(theirs)}"
                )


def _text(row: list[int]) -> str:
    return bytes(row).rstrip(b"\0").decode(errors="replace")
