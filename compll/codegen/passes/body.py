"""Scalar bodies under construction: equal statements are shared, simple ones are simplified as they are added."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from compll.codegen import ir
from compll.codegen.passes.algebra import Statements, simplified
from compll.dtypes import DType

Key = tuple[object, ...]


@dataclass
class BodyBuilder:
    """A body that grows by `add`; names keep the wished words and get a number only on a clash."""

    statements: Statements = field(default_factory=dict)
    _shared: dict[Key, str] = field(default_factory=dict)

    def add(self, statement: ir.Statement) -> str:
        """The name of the statement in this body; its `name` is a wish, its args are names of this body."""
        better = simplified(statement, self.statements)
        if isinstance(better, str):
            return self.cast(better, statement.dtype)
        key = _key(better)
        if key not in self._shared:
            name = self._fresh(better.name)
            self._shared[key] = name
            self.statements[name] = replace(better, name=name)
        return self._shared[key]

    def make(
        self, wish: str, dtype: DType, opcode: str, *args: str,
        source: ir.Value | None = None, **attributes: ir.Attribute,
    ) -> str:  # fmt: skip
        """`add` from parts."""
        pairs = tuple(sorted(attributes.items()))
        return self.add(
            ir.Statement(name=wish, dtype=dtype, opcode=opcode, args=args, source=source, attributes=pairs)
        )

    def cast(self, name: str, dtype: DType) -> str:
        """The statement as `dtype`."""
        statement = self.statements[name]
        return name if statement.dtype == dtype else self.make(name, dtype, "cast", name)

    def body(self, needed: tuple[str, ...]) -> ir.Body:
        """The statements that `needed` depend on, in order."""
        live: set[str] = set()
        pending = list(needed)
        while pending:
            name = pending.pop()
            if name not in live:
                live.add(name)
                pending += self.statements[name].args
        return tuple(s for s in self.statements.values() if s.name in live)

    def _fresh(self, wish: str) -> str:
        name, suffix = wish, 1
        while name in self.statements:
            suffix += 1
            name = f"{wish}_{suffix}"
        return name


def _key(statement: ir.Statement) -> Key:
    source = statement.source.name if statement.source else None
    attributes = tuple((name, _exact(value)) for name, value in statement.attributes)
    return (statement.dtype, statement.opcode, statement.args, source, attributes)


def _exact(value: ir.Attribute) -> object:
    """Tells 0.0 from -0.0, and takes a NaN for equal to itself."""
    return repr(value) if isinstance(value, (float, int)) else value
