"""Sinks: what becomes of the scalars of a sweep. Each is one parallel pattern."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Union

from compll.codegen.ir.values import Body, Scalar, Value
from compll.sizes import Size

CombineKind = Literal["add", "min", "max", "and", "or", "argmin", "argmax", "moments", "custom"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Combine:
    """How two partial results become one. Everything but `custom` carries its identity by itself.

    `argmin`/`argmax`: one value in, the u32 position of the extreme out (lowest on ties, NaN is the extreme).
    `moments`: one f32 in, (mean, m2) f64 out: Chan's mergeable form; m2 is the sum of squared deviations.
    `custom`: `body` over the statements' names `left` and `right` gives `result`; `identity` is its neutral element.
    """

    kind: CombineKind
    identity: Scalar | None = None
    left: str = ""
    right: str = ""
    body: Body = ()
    result: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """result[position] = value: an array of the space's shape (and count), or a scalar in the space of rank 0."""

    result: Value
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Fold:
    """Reduce over the whole space (results scalar) or, `per_row`, over each row (results [rows]).

    The tree is that of numerics.md, positioned from the first element of the space or row.
    """

    results: tuple[Value, ...]
    combine: Combine
    value: str
    per_row: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Keep:
    """Filter a one-dimensional space: positions at which `predicate` holds, ascending, at most `limit` of them.

    Of more matches the first `limit` are kept, cyclically from position (key.step * limit) mod extent. `index` and
    the `carried` results are bounded by `count`; `cut` is how many matches were left out.
    """

    index: Value
    count: Value
    cut: Value
    carried: tuple[tuple[Value, str], ...]
    predicate: str
    limit: Size


@dataclass(frozen=True, slots=True, kw_only=True)
class Top:
    """The positions of the `k` largest keys, of the space or (`per_row`) of each row, in ascending order.

    Ties: the lowest position wins; NaN keys are above everything and tie. k beyond the extent pads with index = extent
    and zeros. `index` and the carried results are [k] or [rows, k].
    """

    index: Value
    carried: tuple[tuple[Value, str], ...]
    key: str
    k: Size
    per_row: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Kth:
    """The `k`-th largest key (1-based; k is clamped to 1..extent) of the space or of each row; NaN above everything."""

    result: Value
    key: str
    k: Size
    per_row: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """Inclusive or exclusive prefix combination along the space or along each row (order: numerics.md)."""

    result: Value
    combine: Combine
    value: str
    exclusive: bool = False
    per_row: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Put:
    """Scatter: result = base (zeros without) with result[index] = value; an index beyond the extent is dropped.

    In a [rows, k] space the result is [rows, extent] and the index counts within the row. Of a repeated index one
    value stays, unspecified which.
    """

    result: Value
    base: Value | None
    index: str
    value: str


Sink = Union[Write, Fold, Keep, Top, Kth, Scan, Put]


def sink_results(sink: Sink) -> tuple[Value, ...]:
    """The values that a sink defines."""
    match sink:
        case Fold(results=values):
            return values
        case Keep(index=index, count=count, cut=cut, carried=carried):
            return (index, count, cut, *(value for value, _ in carried))
        case Top(index=index, carried=carried):
            return (index, *(value for value, _ in carried))
        case _:
            return (sink.result,)
