"""What a function does, in order: sweeps, and the few operations that are none."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Union

from compll.codegen.ir.sinks import Sink, sink_results
from compll.codegen.ir.values import Body, Value
from compll.sizes import Size


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """Evaluate `body` at every position of the space [shape] (the first `count` ones of a bounded space)."""

    shape: tuple[Size, ...]
    count: str | None = None
    body: Body
    sinks: tuple[Sink, ...]
    origin: str = ""  # the line of the program it comes from, for readers of generated text


@dataclass(frozen=True, slots=True, kw_only=True)
class Sort:
    """Sorted copy along the last axis: -inf .. -0 +0 .. inf NaN, or the reverse."""

    result: Value
    source: Value
    descending: bool = False
    origin: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MatMul:
    """result = left @ right of f32 matrices; by the library of the platform, so not bit-equal between backends."""

    result: Value
    left: Value
    right: Value
    transpose_left: bool = False
    transpose_right: bool = False
    origin: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transpose:
    result: Value
    source: Value
    origin: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Orthonormalize:
    """Gram-Schmidt over the columns, two projections; a column below 2^-10 of its norm becomes zero."""

    result: Value
    source: Value
    origin: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AllReduce:
    """The mean over all ranks; ends a round. Alone it is the identity."""

    result: Value
    source: Value
    origin: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Carried:
    """One value carried round a loop: `parameter` is `initial` at first, then `yielded`; `result` is its last value."""

    initial: Value
    parameter: Value
    yielded: Value
    result: Value


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """At most `limit` times: run `head`; leave unless `condition` holds; run `body`."""

    limit: int
    carried: tuple[Carried, ...]
    head: tuple[Operation, ...]
    condition: Value
    body: tuple[Operation, ...]
    origin: str = ""


Operation = Union[Sweep, Sort, MatMul, Transpose, Orthonormalize, AllReduce, Loop]


def results(operation: Operation) -> tuple[Value, ...]:
    """The values that an operation defines."""
    match operation:
        case Sweep(sinks=sinks):
            return tuple(value for sink in sinks for value in sink_results(sink))
        case Loop(carried=carried):
            return tuple(c.result for c in carried)
        case _:
            return (operation.result,)


def with_inner(operations: Iterable[Operation]) -> Iterator[Operation]:
    """These operations and all those inside loops."""
    for operation in operations:
        yield operation
        if isinstance(operation, Loop):
            yield from with_inner((*operation.head, *operation.body))
