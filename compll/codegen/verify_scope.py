"""What the verifier knows while it walks a function, and how it complains. The rules are in `verify*.py`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NoReturn

from compll.codegen import ir
from compll.diagnostics import InternalError
from compll.dtypes import U32, DType
from compll.sizes import Num, Size, Var, substitute, variables


@dataclass(frozen=True, slots=True)
class Sizes:
    """The size variables of a program, and its named sizes by their full expressions."""

    known: frozenset[str]
    full: Mapping[str, Size]

    @classmethod
    def of(cls, program: ir.Program) -> Sizes:
        names = {"numel", *(n for n in program.gradient.names if n), *(p.name for p in program.parameters)}
        full: dict[str, Size] = {}
        for name, size in program.sizes:
            full[name] = substitute(size, full)
        return cls(frozenset(names | set(full)), full)

    def equal(self, a: tuple[Size, ...], b: tuple[Size, ...]) -> bool:
        """Whether two shapes agree, whichever names they are spelled with."""
        return len(a) == len(b) and all(self._same(x, y) for x, y in zip(a, b, strict=True))

    def _same(self, a: Size, b: Size) -> bool:
        return substitute(a, self.full) == substitute(b, self.full)

    def unknown(self, size: Size) -> list[str]:
        return sorted(variables(size) - self.known)


@dataclass(slots=True)
class Scope:
    """Values defined so far in one function; `taken` are all names ever defined in it."""

    function: str
    sizes: Sizes
    parameters: Mapping[str, DType]
    defined: dict[str, ir.Value] = field(default_factory=dict)
    taken: set[str] = field(default_factory=set)
    in_loop: bool = False

    def fail(self, name: str, rule: str) -> NoReturn:
        raise InternalError(f"function `{self.function}`: `{name}`: {rule}")

    def require(self, holds: bool, name: str, rule: str) -> None:
        if not holds:
            self.fail(name, rule)

    def define(self, value: ir.Value) -> None:
        self.require(value.name not in self.taken, value.name, "is defined twice")
        self.require(len(value.shape) <= 2, value.name, f"needs at most two dimensions, got {len(value.shape)}")
        self.check_sizes(value.name, value.shape)
        if value.count is not None:
            self.require(len(value.shape) == 1, value.name, "only a one-dimensional array is bounded")
            self.check_count(value.name, value.count)
        self.taken.add(value.name)
        self.defined[value.name] = value

    def define_all(self, values: Iterable[ir.Value]) -> None:
        """Values that come into being together: counts before what they count."""
        for value in sorted(values, key=lambda v: v.count is not None):
            self.define(value)

    def use(self, value: ir.Value) -> None:
        """A value mentioned by an operation: defined before, and mentioned as it was defined."""
        known = self.defined.get(value.name)
        if known is None:
            self.fail(value.name, "is used before it is defined")
        self.require(known == value, value.name, f"was defined as {spell(known)}, is used as {spell(value)}")

    def check_count(self, name: str, count: str) -> None:
        known = self.defined.get(count)
        if known is None:
            self.fail(name, f"its count `{count}` is used before it is defined")
        self.require(known.dtype == U32 and known.shape == (), name, f"its count `{count}` needs to be a u32 scalar")

    def check_sizes(self, name: str, sizes: Iterable[Size]) -> None:
        for size in sizes:
            self.require(isinstance(size, (Num, Var)) or bool(size.arguments), name, f"`{size}` is no size")
            unknown = self.sizes.unknown(size)
            self.require(not unknown, name, f"size `{size}` uses the unknown name `{''.join(unknown[:1])}`")

    def expect(self, value: ir.Value, dtype: DType, shape: tuple[Size, ...], count: str | None = None) -> None:
        """The type that a result needs to have."""
        wanted = ir.Value(name=value.name, dtype=dtype, shape=shape, count=count)
        self.require(
            value.dtype == dtype and self.sizes.equal(value.shape, shape) and value.count == count,
            value.name, f"needs {spell(wanted)}, got {spell(value)}",
        )  # fmt: skip


def spell(value: ir.Value) -> str:
    """The type of a value, as the text form writes it."""
    if not value.shape:
        return value.dtype.name
    extents = ", ".join(map(str, value.shape))
    return f"{value.dtype}[{extents}]" if value.count is None else f"{value.dtype}[{extents}; {value.count}]"
