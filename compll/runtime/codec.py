"""Encoding and merging the pieces of one step: with their states, keys and flags. Strategies compute through this."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch

from compll.diagnostics import CompllError
from compll.runtime.compressor import Compressor
from compll.runtime.envelope import ABSENT, FINITE, HAS_GRADIENT, SOUND, WHOLE, joined, where_finite
from compll.runtime.key import Key
from compll.runtime.payload import Payload
from compll.runtime.pieces import Piece
from compll.runtime.rounds import Rounds
from compll.runtime.scheduled import ScheduledCompressor
from compll.runtime.sections import add_payloads, why_not_added
from compll.runtime.states import States

NOT_ENCODED = "could not encode its part; the message there says why"


@dataclass(slots=True)
class Part:
    """A piece in one step: `tensor` is a view into DDP's bucket; `present`, whether this rank has the gradient."""

    piece: Piece
    tensor: torch.Tensor
    present: bool


@dataclass(frozen=True, slots=True)
class ToEncode:
    """A piece's values, the zeroed payload to encode them into, and the name of the state to do it with."""

    piece: Piece
    value: torch.Tensor
    out: torch.Tensor
    state: str


@dataclass(slots=True, kw_only=True)
class Codec:
    """`own` compresses what a rank has, `passing` what it re-encodes for others. `step` moves on after each step.

    `finite` is false once a mean of this step was not finite; `resumed`, true in the first step after states were
    loaded. `reports` has the last payload made with each state.
    `adds_payloads`: they are added as they are, not decoded and encoded again.
    """

    own: ScheduledCompressor
    passing: ScheduledCompressor
    states: States
    seed: int
    rank: int
    world_size: int
    threads: int
    step: int = 0
    finite: bool = True
    resumed: bool = False
    reports: dict[str, tuple[int, Payload]] = field(default_factory=dict)
    adds_payloads: bool = field(init=False)

    def __post_init__(self) -> None:
        self.adds_payloads = not why_not_added(self.own.first)

    def key(self, piece: Piece, *, rank: int, hop: int = 0, step: int | None = None) -> Key:
        """Of this step unless another is given."""
        step, index = self.step if step is None else step, piece.spec.index
        return Key(seed=self.seed, step=step, gradient=index, rank=rank, hop=hop, base=piece.start)

    def end_step(self) -> None:
        """Keep the states, or take them back where a mean was not finite and states roll back."""
        self.states.settle(keep=self.finite)
        self.step, self.finite, self.resumed = self.step + 1, True, False

    # --- encode ------------------------------------------------------------------------------------------------------

    def encode(self, parts: Sequence[Part], outs: Sequence[torch.Tensor]) -> torch.Tensor:
        """This rank's own parts into zeroed payloads; their flags, uint8 on their device."""
        flags = [WHOLE if part.present else ABSENT for part in parts]
        present = [i for i, part in enumerate(parts) if part.present]
        own = [ToEncode(parts[i].piece, parts[i].tensor, outs[i], parts[i].piece.name) for i in present]
        finite = dict(zip(present, self._encode(self.own, own, hop=0), strict=True))
        return where_finite(flags, finite, outs[0].device if outs else torch.device("cpu"))

    def encode_rounds(self, parts: Sequence[Part], outs: Sequence[torch.Tensor]) -> Rounds:
        """This rank's own parts, present or not, by a program that needs the means of others on the way."""
        states = [self.states.use(part.piece.name) for part in parts]
        keys = [self.key(part.piece, rank=self.rank) for part in parts]
        rounds = self.compressor.encode_rounds([p.tensor for p in parts], states, keys, outs, threads=self.threads)
        for part, payload in zip(parts, rounds.payloads, strict=True):
            self.reports[part.piece.name] = (self.step, payload)
        return rounds

    def encode_sums(
        self, sums: Mapping[int, ToEncode], flags: Sequence[int], device: torch.device, *, hop: int
    ) -> torch.Tensor:
        """What was merged (f32) into zeroed payloads, by position, where the flags say that there is something; new
        flags, uint8 on the device.

        The `hop`-th re-encoding draws other private numbers than the others.
        """
        there = [position for position in sums if is_whole(flags[position])]
        encoded = self._encode(self.passing, [sums[position] for position in there], hop=hop)
        return where_finite(flags, dict(zip(there, encoded, strict=True)), device)

    def _encode(self, compressors: ScheduledCompressor, given: Sequence[ToEncode], *, hop: int) -> list[torch.Tensor]:
        """Whether each was finite: bool [1] on its device."""
        if not given:
            return []
        states = [self.states.use(each.state) for each in given]
        keys = [self.key(each.piece, rank=self.rank, hop=hop) for each in given]
        payloads = compressors.at(self.step).encode_batch(
            [each.value for each in given], states, keys, [each.out for each in given], threads=self.threads
        )
        for each, payload in zip(given, payloads, strict=True):
            self.reports[each.state] = (self.step, payload)
        return [payload.is_finite for payload in payloads]

    # --- merge -------------------------------------------------------------------------------------------------------

    def payload(self, piece: Piece, buffer: torch.Tensor, dtype: torch.dtype, *, rank: int, hop: int = 0) -> Payload:
        return Payload(buffer=buffer, shape=piece.shape, dtype=dtype, key=self.key(piece, rank=rank, hop=hop))

    def rows(
        self,
        pieces: Sequence[Piece],
        flags: Sequence[Sequence[int]],
        buffers: Sequence[Sequence[torch.Tensor]],
        dtype: torch.dtype | None = None,
    ) -> list[list[Payload | None]]:
        """What each of several senders has of each piece, from their flags and payloads; `dtype`: of what was encoded
        (None: the gradient's)."""
        return [
            [
                self.payload(piece, theirs[i], dtype or piece.dtype, rank=rank) if is_whole(of_rank[i]) else None
                for rank, (of_rank, theirs) in enumerate(zip(flags, buffers, strict=True))
            ]
            for i, piece in enumerate(pieces)
        ]

    def merge(
        self, rows: Sequence[Sequence[Payload | None]], outs: Sequence[torch.Tensor], *, add: bool = False, mean: bool
    ) -> None:
        """Into each of `outs` the sum of a row (None: nothing), with `mean` divided by its length."""
        self.compressor.decode_batch(rows, outs, add=add, mean=mean, threads=self.threads)

    def add_payloads(
        self, piece: Piece, dtype: torch.dtype, payloads: Sequence[torch.Tensor], out: torch.Tensor, *, divisor: int = 1
    ) -> None:
        add_payloads(self.compressor, piece.shape, dtype, payloads, out, divisor=divisor)

    @property
    def compressor(self) -> Compressor:
        """Whose payloads can be decoded: own and passed on have one format."""
        return self.own.at(self.step)

    def deliver(self, parts: Sequence[Part], flags: Sequence[int], means: Callable[[], None]) -> None:
        """End a unit: `means` writes the means into the parts; `flags` are those of all ranks together, for each part.

        A gradient that is not finite on some rank becomes NaN on all, with all its parts that are here. Raises
        CompllError when a rank failed.
        """
        if not all(flag & SOUND for flag in flags):
            raise CompllError(f"another rank {NOT_ENCODED}")
        means()
        broken = {part.piece.spec.name for part, flag in zip(parts, flags, strict=True) if not flag & FINITE}
        self.finite &= not broken
        for part in parts:
            if part.piece.spec.name in broken:
                part.tensor.fill_(float("nan"))


def is_whole(flag: int) -> bool:
    """Whether there is something to decode that can be relied on."""
    return bool(flag & HAS_GRADIENT and flag & SOUND)


def flags_of_all(by_rank: Sequence[Sequence[int]], whose: str = "rank") -> list[int]:
    """For each part, the flags of all ranks together. Raises CompllError naming the ranks that failed, or whatever the
    messages are of."""
    failed = [f"{whose} {rank}" for rank, flags in enumerate(by_rank) if not all(flag & SOUND for flag in flags)]
    if failed:
        raise CompllError(f"{', '.join(failed)} {NOT_ENCODED}")
    return [joined(flags) for flags in zip(*by_rank, strict=True)]
