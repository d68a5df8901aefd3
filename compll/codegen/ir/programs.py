"""Functions with their inputs and outputs, and the program that they make."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from compll.codegen.ir.operations import Operation
from compll.codegen.ir.values import Value
from compll.dtypes import DType
from compll.sizes import Size

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
