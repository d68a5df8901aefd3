"""Partial sums on a ring (CaSync-Ring): N - 1 hops of decode, add and encode, then N - 1 of forwarding the same bytes.

The parts that rank r owns start there; hop by hop the next rank adds its own part to the sum that it decodes and
encodes the result, so that a part is encoded once on each rank and its error grows with the number of ranks. The last
rank on the way encodes the whole sum; those bytes go round unchanged, every rank decodes them and divides.

A program that keeps states of its own (momentum, unsent gradient) first encodes its own part with them, and the sum
with a state for passing on, so that what it does over time is done once and to its own gradient only. So does one
whose payloads add; those are added as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch

from compll.runtime.codec import Part, ToEncode, is_whole
from compll.runtime.collectives import Handle
from compll.runtime.envelope import ABSENT, WHOLE, joined
from compll.runtime.gradients import GradientSpec
from compll.runtime.payload import Payload
from compll.runtime.pieces import Piece, assign
from compll.runtime.strategies.base import Context, StateSpec, Unit
from compll.runtime.strategies.sharing import Share, Shares
from compll.runtime.tasks import Graph, Kind, chain, compute, transfer


class Ring:
    """Needs a program without collectives of its own."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._loads = [0] * context.collectives.world_size

    def pieces(self, spec: GradientSpec, parts: int) -> Sequence[Piece]:
        return list(assign(spec, parts, self._context.codec.own.first, self._loads))

    def states(self, piece: Piece) -> Iterator[StateSpec]:
        yield StateSpec(name=piece.name, piece=piece, dtype=torch.float32)
        codec = self._context.codec
        if codec.own.first.keeps_states and not codec.adds_payloads and piece.owner != self._context.collectives.rank:
            yield StateSpec.passed_on(piece)

    def open(self, unit: Unit) -> Graph:
        exchange = _Exchange(self._context, unit)
        ranks = self._context.collectives.world_size
        stages = [compute(Kind.ENCODE, exchange.encode)]
        for _ in range(ranks - 1):
            stages += [transfer(exchange.shift), compute(Kind.MERGE, exchange.add)]
            stages += [compute(Kind.ENCODE, exchange.pass_on)]
        stages += [transfer(exchange.shift)] * (ranks - 1)
        return chain(*stages, compute(Kind.DECODE, exchange.decode))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Meeting:
    """A part at one hop: the sum so far that came, this rank's own (None where it has values only), with their flags,
    and the payload that goes on."""

    part: Part
    came: int
    incoming: torch.Tensor
    mine: int
    own: torch.Tensor | None
    out: torch.Tensor

    @property
    def is_sum(self) -> bool:
        """Else only one of the two is there, and encoded: its bytes go on as they are."""
        return is_whole(self.mine) and (is_whole(self.came) or self.own is None)

    @property
    def payloads(self) -> list[torch.Tensor]:
        both = ((self.incoming, self.came), (self.own, self.mine))
        return [payload for payload, flag in both if payload is not None and is_whole(flag)]


class _Exchange:
    """`_hop` counts the shifts; on its way at a hop is the message of the rank so many places before. `_sent` has for
    each owner what this rank sends on: the sum so far, at last the whole one."""

    def __init__(self, context: Context, unit: Unit) -> None:
        self._codec, self._collectives = context.codec, context.collectives
        self._ranks = self._collectives.world_size
        self._shares = Shares(unit.parts, unit.payload_sizes(self._codec.compressor, torch.float32), self._ranks)
        self._values = {part.piece.name: context.floats(unit, "own", part.piece) for part in unit.parts}
        self._sent = context.zeros(unit, "sent", sum(self._shares.nbytes))
        self._incoming = context.memory(unit, "incoming", max(self._shares.nbytes))
        first = self._codec.own.first.keeps_states or self._codec.adds_payloads
        self._own = context.zeros(unit, "own payloads", sum(self._shares.nbytes)) if first else None
        self._meetings: list[_Meeting] = []
        self._hop = 0

    @property
    def _owner(self) -> int:
        return (self._collectives.rank - self._hop) % self._ranks

    @property
    def _share(self) -> Share:
        return self._shares[self._owner]

    @property
    def _received(self) -> torch.Tensor:
        return self._incoming[: self._share.nbytes]

    # --- on the way --------------------------------------------------------------------------------------------------

    def encode(self) -> None:
        """All own parts, where a sum of values is not enough; else those that start here, the others hop by hop."""
        for part in self._shares.parts:
            self._values[part.piece.name].copy_(part.tensor)
        if self._own is not None:
            payloads = self._shares.payloads(self._own)
            self._shares.write_flags(self._own, self._codec.encode(self._as_floats(self._shares.parts), payloads))
            if self._codec.adds_payloads:  # before the sum, which 16 bits might not hold
                for part, payload in zip(self._shares.parts, payloads, strict=True):
                    self._codec.add_payloads(part.piece, torch.float32, [payload], payload, divisor=self._ranks)
            self._message(self._sent).copy_(self._message(self._own))
        else:
            envelope, message = self._share.envelope, self._message(self._sent)
            flags = self._codec.encode(self._as_floats(self._share.parts), envelope.payloads(message))
            envelope.write_flags(message, flags)

    def shift(self, done: Callable[[], None]) -> Handle:
        source = self._message(self._sent)
        self._hop += 1
        target = self._received if self._hop < self._ranks else self._message(self._sent)
        return self._collectives.shift(target, source, done)

    def add(self) -> None:
        """Form the sums of what came and what is here: of values, which are then encoded, or of payloads."""
        self._meetings = list(self._meet())
        if self._codec.adds_payloads:
            for meeting in self._meetings:
                self._codec.add_payloads(meeting.part.piece, torch.float32, meeting.payloads, meeting.out)
            return
        nothing: list[Payload | None] = [None]
        rows = [[self._payload(meeting.part, b) for b in meeting.payloads] or nothing for meeting in self._meetings]
        sums = [self._values[meeting.part.piece.name] for meeting in self._meetings]
        self._codec.merge(rows, sums, add=self._own is None, mean=False)

    def pass_on(self) -> None:
        flags = [joined((meeting.came, meeting.mine)) for meeting in self._meetings]
        sums: dict[int, ToEncode] = {}
        if not self._codec.adds_payloads:
            sums = {i: self._sum(meeting) for i, meeting in enumerate(self._meetings) if meeting.is_sum}
            for meeting in self._meetings:
                if not meeting.is_sum and meeting.payloads:
                    meeting.out.copy_(meeting.payloads[0])
        encoded = self._codec.encode_sums(sums, flags, self._sent.device, hop=self._hop)
        self._share.envelope.write_flags(self._message(self._sent), encoded)

    def decode(self) -> None:
        parts, flags = self._shares.parts, self._shares.read_flags(self._sent)
        others: list[Payload | None] = [None] * (self._ranks - 1)
        rows: list[list[Payload | None]] = [
            [self._payload(part, buffer) if is_whole(flag) else None, *others]
            for part, buffer, flag in zip(parts, self._shares.payloads(self._sent), flags, strict=True)
        ]
        outs, mean = [part.tensor for part in parts], not self._codec.adds_payloads
        self._codec.deliver(parts, flags, lambda: self._codec.merge(rows, outs, mean=mean))

    # --- helpers -----------------------------------------------------------------------------------------------------

    def _message(self, buffer: torch.Tensor) -> torch.Tensor:
        return self._shares.split(buffer)[self._owner]

    def _as_floats(self, parts: Sequence[Part]) -> list[Part]:
        return [Part(part.piece, self._values[part.piece.name], part.present) for part in parts]

    def _payload(self, part: Part, buffer: torch.Tensor) -> Payload:
        return self._codec.payload(part.piece, buffer, torch.float32, rank=part.piece.owner)

    def _meet(self) -> Iterator[_Meeting]:
        parts, envelope = self._share.parts, self._share.envelope
        incoming, outs = envelope.payloads(self._received), envelope.payloads(self._message(self._sent))
        own: Sequence[torch.Tensor | None] = [None] * len(parts)
        if self._own is None:
            came, mine = envelope.read_flags(self._received), [WHOLE if part.present else ABSENT for part in parts]
        else:
            message = self._message(self._own)
            own, (came, mine) = envelope.payloads(message), envelope.read_all_flags([self._received, message])
        for i, part in enumerate(parts):
            yield _Meeting(part=part, came=came[i], incoming=incoming[i], mine=mine[i], own=own[i], out=outs[i])

    def _sum(self, meeting: _Meeting) -> ToEncode:
        piece = meeting.part.piece
        state = piece.name if meeting.own is None else StateSpec.passed_on(piece).name
        return ToEncode(piece, self._values[piece.name], meeting.out, state)
