"""What happens next in one synchronised step: events in, instructions out. Pure: no torch, no clock, no thread.

Invariant: the order of the instructions that start a collective (`Exchange`, `ReduceDense`) is the order in which DDP
hands out its buckets, the dense reduction last. It never depends on which exchange completes first, so that all ranks
issue the same collectives in the same order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Union

from compll.diagnostics import CompllError


@dataclass(frozen=True, slots=True)
class BucketReady:
    """DDP has filled a bucket; `last` is its last one of the step."""

    bucket: int
    last: bool


@dataclass(frozen=True, slots=True)
class Exchanged:
    """The collectives that a bucket's `Exchange` started are complete."""

    bucket: int


@dataclass(frozen=True, slots=True)
class DenseReduced:
    """The collectives that `ReduceDense` started are complete."""


Event = Union[BucketReady, Exchanged, DenseReduced]


@dataclass(frozen=True, slots=True)
class Exchange:
    """Encode the bucket's gradients and start their collectives; ends in exactly one `Exchanged`."""

    bucket: int


@dataclass(frozen=True, slots=True)
class ReduceDense:
    """Start the reduction of the gradients that are not compressed; ends in exactly one `DenseReduced`."""


@dataclass(frozen=True, slots=True)
class Decode:
    """Merge what all ranks sent into the bucket."""

    bucket: int


@dataclass(frozen=True, slots=True)
class StoreDense:
    """Put the dense means into their buckets."""


@dataclass(frozen=True, slots=True)
class Finish:
    """Settle the states and hand all buckets back to DDP."""


Instruction = Union[Exchange, ReduceDense, Decode, StoreDense, Finish]


class Schedule:
    """The state of one step; after `Finish` it stands at the beginning of the next."""

    def __init__(self) -> None:
        self._expected = 0
        self._outstanding = 0
        self._closing = False

    def handle(self, event: Event) -> tuple[Instruction, ...]:
        """The instructions that follow from an event, in order. Raises CompllError for a bucket out of turn."""
        match event:
            case BucketReady(bucket, last):
                return self._ready(bucket, last)
            case Exchanged(bucket):
                return self._completed(Decode(bucket))
            case DenseReduced():
                return self._completed(StoreDense())

    def _ready(self, bucket: int, last: bool) -> tuple[Instruction, ...]:
        if bucket != self._expected or self._closing:
            raise CompllError(
                f"bucket {bucket} came where {self._expected} was due: the backward pass before this one did not finish"
            )
        self._expected += 1
        self._outstanding += 1
        if not last:
            return (Exchange(bucket),)
        self._closing = True
        self._outstanding += 1
        return (Exchange(bucket), ReduceDense())

    def _completed(self, next_step: Instruction) -> tuple[Instruction, ...]:
        self._outstanding -= 1
        if self._outstanding or not self._closing:
            return (next_step,)
        self._expected, self._closing = 0, False
        return (next_step, Finish())
