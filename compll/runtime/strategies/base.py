"""What a strategy is given and what it says of itself."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import torch

from compll.runtime.codec import Codec, Part
from compll.runtime.collectives import Collectives
from compll.runtime.compressor import Compressor
from compll.runtime.gradients import GradientSpec
from compll.runtime.pieces import Piece, cut
from compll.runtime.strategies.memory import Arena
from compll.runtime.tasks import Graph


@dataclass(frozen=True, slots=True)
class Unit:
    """Parts that travel together in one step; `name` stands for memory that may be used again in the next."""

    name: object
    parts: Sequence[Part]

    def payload_sizes(self, compressor: Compressor, dtype: torch.dtype | None = None) -> tuple[int, ...]:
        """The payloads' bytes by part, for gradients of `dtype` (None: their own)."""
        return tuple(compressor.payload_bytes(p.piece.shape, dtype or p.piece.dtype) for p in self.parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class StateSpec:
    """A state that a strategy keeps of a piece, for gradients of `dtype`; `passing`: for re-encoding."""

    name: str
    piece: Piece
    dtype: torch.dtype
    passing: bool = False

    @classmethod
    def passed_on(cls, piece: Piece) -> StateSpec:
        """Of encoding sums (f32) for others."""
        return cls(name=f"{piece.name} passed on", piece=piece, dtype=torch.float32, passing=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """`collectives` are those of all ranks; with nodes, `node` those inside this rank's node and `across` those of the
    ranks that have this one's place in theirs."""

    codec: Codec
    collectives: Collectives
    node: Collectives | None = None
    across: Collectives | None = None
    arena: Arena = field(default_factory=Arena)

    def memory(self, unit: Unit, name: str, nbytes: int) -> torch.Tensor:
        """Bytes that the unit keeps from step to step; what they hold is whatever was there."""
        return self.arena.get((unit.name, name), nbytes, torch.uint8, unit.parts[0].tensor.device)

    def zeros(self, unit: Unit, name: str, nbytes: int) -> torch.Tensor:
        return self.memory(unit, name, nbytes).zero_()

    def floats(self, unit: Unit, name: str, piece: Piece) -> torch.Tensor:
        """An f32 tensor of a piece's shape, kept likewise; by the piece, which is in one unit of a step only."""
        kept = self.arena.get((name, piece.name), piece.numel, torch.float32, unit.parts[0].tensor.device)
        return kept.view(piece.shape)


class Strategy(Protocol):
    """Lays out the tasks that take a unit's gradients to their means over all ranks, the same bits on each."""

    def pieces(self, spec: GradientSpec, parts: int) -> Sequence[Piece]:
        """What a gradient is cut into; called once for each, in `named_parameters()` order."""

    def states(self, piece: Piece) -> Iterable[StateSpec]:
        """The states that this rank keeps of a piece."""

    def open(self, unit: Unit) -> Graph: ...


class Unshared:
    """Pieces and states where every rank encodes all that it has, and nothing for others."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def pieces(self, spec: GradientSpec, parts: int) -> Sequence[Piece]:
        return cut(spec, parts, self._context.codec.own.first)

    def states(self, piece: Piece) -> Iterable[StateSpec]:
        yield StateSpec(name=piece.name, piece=piece, dtype=piece.dtype)
