"""The closed set of primitives of the language: names, signatures, parallel patterns, meaning and cost.

A table, not an implementation: types are checked in `dsl`, meaning is in `codegen.interpret`. A new primitive begins
with a line here; tests walk the table and name what is missing elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Pattern = Literal[
    "map", "reduce", "scan", "sort", "select", "filter", "gather", "scatter", "random", "matrix", "collective", "size"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Formal:
    """One parameter of a primitive: `option`s are named in canonical calls, a `variadic` one takes any number."""

    name: str
    option: bool = False
    required: bool = True
    variadic: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PrimitiveSpec:
    """`signature` is written as users read it: `x = y` has a default, `*x` repeats, what follows `|` is named.

    `pattern` is the parallel pattern that runs it. `pure` is False where two equal calls may differ (random draws) or
    where other ranks take part. `doc` is the meaning with ties, NaN and empty rules; `cost` counts passes over the
    operand.
    """

    name: str
    signature: str
    pattern: Pattern
    doc: str
    cost: str
    pure: bool = True

    def formals(self) -> tuple[Formal, ...]:
        """The parameters in order."""
        inside = self.signature[self.signature.index("(") + 1 : -1]
        positional, _, named = inside.partition(" | ")
        return tuple(_formal(text, False) for text in _split(positional)) + tuple(
            _formal(text, True) for text in _split(named)
        )


def _split(text: str) -> list[str]:
    return text.split(", ") if text else []


def _formal(text: str, option: bool) -> Formal:
    name, _, default = text.partition(" = ")
    variadic = name.startswith("*")
    return Formal(name=name.lstrip("*"), option=option, required=not (default or variadic), variadic=variadic)


_ELEMENTWISE = "fused into the pass that uses it"
_ONE_PASS = "one pass, shared with other reductions of the same array"

_MAP = (
    ("abs(x)", "magnitude; of an unsigned integer itself"),
    ("sign(x)", "-1, 0 or 1 in the type of x; NaN stays NaN"),
    ("floor(x)", "largest whole number <= x, as f32"),
    ("ceil(x)", "smallest whole number >= x, as f32"),
    ("round(x)", "nearest whole number, halves to even, as f32"),
    ("trunc(x)", "whole part, as f32"),
    ("sqrt(x)", "correctly rounded; NaN below 0"),
    ("exp(x)", "own polynomial, equal bits on every backend"),
    ("log(x)", "natural logarithm, own polynomial; -inf at 0, NaN below"),
    ("exp2(x)", "own polynomial, exact at whole numbers"),
    ("log2(x)", "own polynomial, exact at powers of two"),
    ("pow(x, y)", "exp2(y log2 x); NaN below 0"),
    ("clamp(x, low, high)", "min(max(x, low), high); NaN stays NaN"),
    ("fma(a, b, c)", "a * b + c rounded once; nothing else is ever contracted"),
    ("is_finite(x)", "false for NaN and the infinities"),
    ("is_nan(x)", "true for NaN"),
    ("bits(x)", "the bits of an f32 as u32"),
    ("from_bits(x)", "the f32 with the bits of a u32"),
    ("where(condition, x, y)", "the same as `condition ? x : y`"),
    ("popcount(x)", "number of one bits of a u32"),
    ("leading_zeros(x)", "zero bits above the highest one bit of a u32; 32 for 0"),
)

_REDUCE = (
    ("sum(x | axis = none)", "sum in the tree of the numerics contract"),
    ("mean(x | axis = none)", "sum / f32(length)"),
    ("std(x | axis = none)", "sqrt(mean squared deviation), divided by the length; exactly 0 for a constant"),
    ("min(x, y = none | axis = none)", "least element, or elementwise with two operands; NaN wins, -0 < +0"),
    ("max(x, y = none | axis = none)", "greatest element, or elementwise with two operands; NaN wins, -0 < +0"),
    ("any(x | axis = none)", "true if one is true"),
    ("all(x | axis = none)", "true if none is false"),
    ("count(x | axis = none)", "number of true elements, as u32"),
    ("norm1(x | axis = none)", "sum of magnitudes"),
    ("norm2(x | axis = none)", "Euclidean norm, accumulated in f64"),
    ("argmax(x | axis = none)", "position of the greatest element, as u32; lowest position on ties, NaN is greatest"),
    ("argmin(x | axis = none)", "position of the least element, as u32; lowest position on ties, NaN is least"),
    ("reduce(x, identity, combine | axis = none)", "fold by an associative `combine` with its neutral element"),
)

_REST: tuple[tuple[str, Pattern, str, str], ...] = (
    ("map(function, *arrays)", "map", "the function at every position; scalars and row values are repeated",
     _ELEMENTWISE),
    ("scan(x, identity, combine | exclusive = false)", "scan", "running fold along the last axis", "two passes"),
    ("cumsum(x | exclusive = false)", "scan", "running sum along the last axis", "two passes"),
    ("sort(x | descending = false)", "sort", "along the last axis; -inf .. -0 +0 .. inf NaN", "several passes"),
    ("topk(x, k | by = identity)", "select",
     "record {index, value} of the k greatest keys, of each row for a matrix, in ascending index order; ties go to "
     "the lowest index, NaN is above everything; k beyond the extent pads with index = extent and value 0",
     "one or two passes"),
    ("kth_largest(x, k | by = identity)", "select",
     "the k-th greatest key, of each row for a matrix; k is clamped to 1 .. extent", "one or two passes"),
    ("filter(x, predicate | at_most)", "filter",
     "record {index, value} of the elements that satisfy the predicate |x| or |x, position|, in ascending index "
     "order; of more than `at_most` the first in a cyclic order that starts further on every step", "one pass"),
    ("scatter(extent, index, value)", "scatter",
     "zeros with value at index, within each row for matrices; indices beyond the extent are dropped",
     "one zero fill and one write per index"),
    ("sample(x, m)", "random", "m elements drawn with replacement by private random positions", "m reads"),
    ("random.uniform(*dimensions | shared = false, bits = 32)", "random", "f32 in [0, 1)", _ELEMENTWISE),
    ("random.normal(*dimensions | shared = false)", "random", "f32 of mean 0 and deviation 1, a sum of uniforms",
     _ELEMENTWISE),
    ("random.choose(n, k | shared = false)", "random", "k distinct indices below n, in no order, as u32",
     "O(k), no pass"),
    ("iota(n)", "map", "0, 1, .. n - 1 as u32", _ELEMENTWISE),
    ("fill(*dimensions | value)", "map", "an array of one value", _ELEMENTWISE),
    ("len(x)", "size", "number of elements along the last axis: a size, or a u32 for a bounded array", "none"),
    ("blocks(size)", "size", "ceil(numel / size), in a size", "none"),
    ("matmul(a, b)", "matrix", "matrix product, by the platform's library", "that of the library"),
    ("transpose(x)", "matrix", "rows become columns", "one pass"),
    ("orthonormalize(x)", "matrix",
     "Gram-Schmidt over the columns, two projections; a column below 2^-10 of its norm becomes 0", "cols^2 passes"),
    ("all_reduce_mean(x)", "collective", "mean over all ranks; ends a round; alone the identity", "the network's"),
)  # fmt: skip


def _table() -> dict[str, PrimitiveSpec]:
    rows: list[tuple[str, Pattern, str, str]] = [
        *((signature, "map", doc, _ELEMENTWISE) for signature, doc in _MAP),
        *((signature, "reduce", doc, _ONE_PASS) for signature, doc in _REDUCE),
        *_REST,
    ]
    specs = (
        PrimitiveSpec(
            name=signature[: signature.index("(")],
            signature=signature,
            pattern=pattern,
            doc=doc,
            cost=cost,
            pure=pattern not in ("random", "collective"),
        )
        for signature, pattern, doc, cost in rows
    )
    return {spec.name: spec for spec in specs}


#: Every primitive by its name, in the order of the reference.
PRIMITIVES: dict[str, PrimitiveSpec] = _table()
