"""The sizes that the kernels of a plan use, each under a name: fields of the segment record.

Named sizes and dimensions keep their names; those of the wire format are called `<field>_offset`, `<field>_nbytes`,
`<field>_low_bits` and `<field>_low_bytes`; other expressions get names made of their text. Constants and `numel` need
no field. Sizes come in such an order that each can be evaluated from `numel`, the dimensions, the parameters and those
before it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass

from compll.codegen import ir
from compll.codegen.layout import Section
from compll.codegen.plan import KEY_FIELDS, Buffer, DecodeAscending, EncodeAscending, Kernel, KernelPlan, Repeat
from compll.diagnostics import InternalError
from compll.sizes import Apply, Num, Size, Var, variables

_MAX_NAME = 32
_WHOLE_OF_WHOLE = {"add", "sub", "mul", "min", "max", "rem", "neg", "abs"}
_ALWAYS_WHOLE = {"floor", "ceil", "shl", "shr", "lt", "le", "gt", "ge", "eq", "ne", "and", "or", "not"}


def size_name(plan: KernelPlan, size: Size) -> str:
    """How a kernel spells a size: a whole literal, `numel`, or the name of a field. Raises InternalError for others."""
    if isinstance(size, Num) and size.value == int(size.value):
        return str(int(size.value))
    if size == Var("numel"):
        return "numel"
    for name, known in (*plan.sizes, *plan.numbers):
        if size in (known, Var(name)):
            return name
    raise InternalError(f"function `{plan.function}`: size `{size}` is no field of the record")


@dataclass
class RecordSizes:
    """Collects sizes; `sizes` are whole numbers, `numbers` any (arithmetic reads them, extents do not)."""

    program: ir.Program
    taken: set[str]
    sizes: dict[Size, str]
    numbers: dict[Size, str]

    @classmethod
    def of(cls, program: ir.Program, buffers: Iterable[Buffer], kernels: Iterable[Kernel]) -> RecordSizes:
        buffers, kernels = tuple(buffers), tuple(kernels)
        taken = {*(b.name for b in buffers), *(p.name for p in program.parameters), "payload", "numel", *KEY_FIELDS}
        found = cls(program, taken, {}, {})
        for buffer in buffers:
            found.add_section(buffer.section)
        for section in _sections(kernels):
            found.add_section(section)
        for size in _sizes(kernels):
            found.add(size, _slug(size))
        for buffer in buffers:
            for size in buffer.shape:
                found.add(size, _slug(size))
        return found

    def add_section(self, section: Section | None) -> None:
        if section is None:
            return
        self.add(section.offset, f"{section.name}_offset")
        if section.low_bits is not None and section.low_bytes is not None:
            self.add(section.low_bits, f"{section.name}_low_bits")
            self.add(section.low_bytes, f"{section.name}_low_bytes")
            self.add(section.nbytes, f"{section.name}_nbytes")

    def add(self, size: Size, wish: str) -> None:
        """Give a size a field, unless it needs none or has one; the named sizes that it is made of come first."""
        constant = isinstance(size, Num) and size.value == int(size.value)
        if constant or size == Var("numel") or size in self.sizes or size in self.numbers:
            return
        named = dict(self.program.sizes)
        within = named.get(size.name, size) if isinstance(size, Var) else size
        for variable in sorted(variables(within) & named.keys()):
            if size != Var(variable):
                self.add(Var(variable), variable)
        fields_of = self.sizes if self._is_whole(size) else self.numbers
        fields_of[size] = self._fresh(size.name if isinstance(size, Var) else wish)

    def entries(self, chosen: Mapping[Size, str]) -> tuple[tuple[str, Size], ...]:
        """Names and what they stand for; a named size that keeps its name stands for its definition."""
        named = dict(self.program.sizes)
        return tuple((name, named.get(name, size) if size == Var(name) else size) for size, name in chosen.items())

    def _is_whole(self, size: Size) -> bool:
        match size:
            case Num(value):
                return value == int(value)
            case Var(name):
                named = dict(self.program.sizes)
                floats = {p.name for p in self.program.parameters if p.dtype.kind == "float"}
                return self._is_whole(named[name]) if name in named else name not in floats
            case Apply(operation, arguments):
                whole = operation in _WHOLE_OF_WHOLE and all(self._is_whole(a) for a in arguments)
                chosen = operation == "select" and all(self._is_whole(a) for a in arguments[1:])
                return operation in _ALWAYS_WHOLE or whole or chosen

    def _fresh(self, wish: str) -> str:
        name, suffix = wish if wish not in self.taken else f"{wish}_size", 1
        while name in self.taken:
            suffix += 1
            name = f"{wish}_size_{suffix}"
        self.taken.add(name)
        return name


def _slug(size: Size) -> str:
    """A name made of an expression's text."""
    words = str(size).replace("<<", "shl").replace(">>", "shr").replace("*", " x ").replace("/", " by ")
    words = words.replace("+", " plus ").replace(" - ", " minus ")
    name = re.sub(r"\W+", "_", words).strip("_")[:_MAX_NAME].strip("_")
    return name if name[:1].isalpha() else f"size_{name}"


def _sections(node: object) -> Iterator[Section]:
    """Every section that steps mention."""
    match node:
        case Section():
            yield node
        case tuple():
            for item in node:
                yield from _sections(item)
        case Kernel(step=step):
            yield from _sections(step)
        case Repeat(head=head, body=body):
            yield from _sections((*head, *body))
        case EncodeAscending(section=section) | DecodeAscending(section=section):
            yield section


def _sizes(node: object) -> Iterator[Size]:
    """Every size that steps mention, in order of appearance."""
    match node:
        case Num() | Var() | Apply():
            yield node
        case tuple():
            for item in node:
                yield from _sizes(item)
        case Section():
            yield from _sizes((node.extent, *node.shape) if node.coding == "ascending" else node.shape)
        case _ if is_dataclass(node):
            for f in fields(node):
                yield from _sizes(getattr(node, f.name))
