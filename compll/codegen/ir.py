"""The intermediate representation: SSA values, one parallel operation (`Sweep`) and the few that are no sweeps.

A *sweep* walks an iteration space, evaluates a scalar body at every position and gives the scalars to sinks, each of
which is one parallel pattern: `Write` (map), `Fold` (reduce), `Keep` (filter), `Top` and `Kth` (selection), `Scan`,
`Put` (scatter). Lowering makes sweeps of one primitive each; fusion merges them. Nothing here knows a language, a
backend or a buffer. What each thing means is written once, executably, in `interpret.py`; what is legal, in
`verify.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Union

from compll.dtypes import DType
from compll.sizes import Size

Scalar = Union[int, float, bool]
Attribute = Union[Size, int, float, bool, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """The result of an operation or an input of a function; `name` is unique in its function.

    `shape` has 0, 1 or 2 dimensions. With `count` (the name of a scalar u32 value) the array is bounded: `shape` is
    its capacity, its length is the count, and what lies beyond is zero. Only one-dimensional arrays, or the rows of
    nothing, are bounded.
    """

    name: str
    dtype: DType
    shape: tuple[Size, ...] = ()
    count: str | None = None


# --- scalar bodies ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """One scalar SSA statement of a body: `name = opcode(args)`; opcodes are listed in `OPCODES`.

    `args` name earlier statements of the same body (or the parameters of a custom combine). Loads have a `source`.
    """

    name: str
    dtype: DType
    opcode: str
    args: tuple[str, ...] = ()
    source: Value | None = None
    attributes: tuple[tuple[str, Attribute], ...] = ()

    def attribute(self, name: str) -> Attribute:
        return dict(self.attributes)[name]


Body = tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class Opcode:
    """`arity` is the number of args (draws take an optional position); `kind` groups opcodes for verifier, printers."""

    arity: int
    kind: Literal["leaf", "load", "draw", "arithmetic", "compare", "logic", "bits", "function", "cast"]
    doc: str


OPCODES: dict[str, Opcode] = {
    # leaves
    "const": Opcode(0, "leaf", "attribute value"),
    "param": Opcode(0, "leaf", "attribute name: a parameter that is an argument of the kernel"),
    "size": Opcode(0, "leaf", "attribute value: a Size, converted to dtype"),
    "position": Opcode(0, "leaf", "attribute axis: flat | row | column, as u32"),
    # loads: an array of the space's shape at this position, a row value at this row, or a scalar
    "load": Opcode(0, "load", "source at the own position, its row (shape [rows] in a [rows, cols] space) or scalar"),
    "load_at": Opcode(1, "load", "source at index arg (within this row for a matrix); 0 beyond its extent or count"),
    # random draws (numerics.md): attributes stream, shared; position = the arg if there is one, else the flat position
    "uniform": Opcode(0, "draw", "f32 in [0, 1); attribute bits: 32 | 16"),
    "normal": Opcode(0, "draw", "f32, sum of uniforms"),
    "choose": Opcode(0, "draw", "u32: keyed permutation of [0, extent); attribute extent: Size"),
    "sample_index": Opcode(0, "draw", "u32: (word * extent) >> 32; attribute extent: Size"),
    # arithmetic in the statement's dtype (f32, f64, i32, i64, u32); integer division and remainder by 0 give 0
    "add": Opcode(2, "arithmetic", ""),
    "sub": Opcode(2, "arithmetic", ""),
    "mul": Opcode(2, "arithmetic", ""),
    "div": Opcode(2, "arithmetic", "floats: IEEE; integers: toward zero"),
    "rem": Opcode(2, "arithmetic", "sign of the dividend (fmod)"),
    "neg": Opcode(1, "arithmetic", ""),
    "min": Opcode(2, "arithmetic", "NaN wins; -0 < +0"),
    "max": Opcode(2, "arithmetic", "NaN wins; -0 < +0"),
    "abs": Opcode(1, "arithmetic", ""),
    "sign": Opcode(1, "arithmetic", "-1, 0, 1; NaN stays"),
    "fma": Opcode(3, "arithmetic", "a * b + c, rounded once"),
    # comparisons: args of one dtype, result bool; float comparisons are IEEE (false with NaN, ne true)
    "lt": Opcode(2, "compare", ""),
    "le": Opcode(2, "compare", ""),
    "gt": Opcode(2, "compare", ""),
    "ge": Opcode(2, "compare", ""),
    "eq": Opcode(2, "compare", ""),
    "ne": Opcode(2, "compare", ""),
    # bool logic and choice
    "and": Opcode(2, "logic", ""),
    "or": Opcode(2, "logic", ""),
    "not": Opcode(1, "logic", ""),
    "select": Opcode(3, "logic", "condition, then, otherwise"),
    # integer bits; shifts by >= width give 0 (shr of a negative i32: -1)
    "bitand": Opcode(2, "bits", ""),
    "bitor": Opcode(2, "bits", ""),
    "bitxor": Opcode(2, "bits", ""),
    "bitnot": Opcode(1, "bits", ""),
    "shl": Opcode(2, "bits", ""),
    "shr": Opcode(2, "bits", ""),
    "popcount": Opcode(1, "bits", "u32 -> u32"),
    "leading_zeros": Opcode(1, "bits", "u32 -> u32; 32 for 0"),
    "bits": Opcode(1, "bits", "f32 -> u32, the same bits"),
    "from_bits": Opcode(1, "bits", "u32 -> f32, the same bits"),
    # functions of f32 (floor .. sqrt exact; exp .. pow by own polynomials, equal on all backends)
    "floor": Opcode(1, "function", ""),
    "ceil": Opcode(1, "function", ""),
    "round": Opcode(1, "function", "half to even"),
    "trunc": Opcode(1, "function", ""),
    "sqrt": Opcode(1, "function", "correctly rounded; also f64"),
    "exp": Opcode(1, "function", ""),
    "log": Opcode(1, "function", ""),
    "exp2": Opcode(1, "function", ""),
    "log2": Opcode(1, "function", ""),
    "pow": Opcode(2, "function", ""),
    "is_finite": Opcode(1, "function", "f32 -> bool"),
    "is_nan": Opcode(1, "function", "f32 -> bool"),
    # conversion to the statement's dtype by the rules of numerics.md
    "cast": Opcode(1, "cast", ""),
}

# --- combining -------------------------------------------------------------------------------------------------------

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


# --- sinks -----------------------------------------------------------------------------------------------------------


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

# --- operations ------------------------------------------------------------------------------------------------------


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


# --- functions and programs ------------------------------------------------------------------------------------------

Role = Literal["gradient", "residual", "state", "field", "previous", "count", "out", "finite", "cut"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Port:
    """An input or output of a function.

    roles: `gradient` (in), `residual` and `state` (in and out, updated in place), `field` (out of encode, into
    decode; `count` likewise for the count of a bounded field, under the field's name), `previous` (in: a field of the
    payload that this gradient's last encode made), `out` (the dense result; in
    `decode_add` also an input), `finite` (bool: every element of the gradient was finite), `cut` (u32, a filter's
    matches left out).
    """

    role: Role
    name: str
    value: Value


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """`encode`, `decode`, or a derived one (`encode_with_feedback`, `encode_with_lazy_feedback`, `lazy_residual`,
    `decode_add`, `initial_<state>`)."""

    name: str
    inputs: tuple[Port, ...]
    operations: tuple[Operation, ...]
    outputs: tuple[Port, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One typed section of the payload.

    `ascending` is the extent below which the indices lie (Elias-Fano coding), or None. `count_of` names the field
    that carries the count of a bounded section (itself, or another for `len(other)`), else None.
    """

    name: str
    dtype: DType
    shape: tuple[Size, ...]
    ascending: Size | None = None
    count_of: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StateSpec:
    """A state: zeros at first, or what the function `initial_<name>` computes."""

    name: str
    dtype: DType
    shape: tuple[Size, ...]
    initial: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A parameter that stays an argument of kernels and sizes (the others are folded in)."""

    name: str
    dtype: DType


@dataclass(frozen=True, slots=True, kw_only=True)
class GradientView:
    """How the gradient is seen: `flat` [n], `matrix` [rows, cols], `blocks` [ceil(numel / b), b], zero-padded.

    `names` are the program's names of its dimensions (None for an extent that is no new name).
    """

    kind: Literal["flat", "matrix", "blocks"]
    shape: tuple[Size, ...]
    names: tuple[str | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """One compressor, specialised to the parameters that its types and conditions use and to one payload layout."""

    name: str
    gradient: GradientView
    parameters: tuple[Parameter, ...]
    sizes: tuple[tuple[str, Size], ...]  # named sizes in order of definition
    states: tuple[StateSpec, ...]
    fields: tuple[Field, ...]
    traits: tuple[str, ...]
    feedback: bool
    functions: tuple[Function, ...]

    def function(self, name: str) -> Function:
        return next(f for f in self.functions if f.name == name)
