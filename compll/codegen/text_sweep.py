"""Reads the sweeps of the IR's text form: values, bodies and sinks."""

from __future__ import annotations

from typing import Any, get_args

from compll.codegen import ir
from compll.codegen.text_tokens import Tokens
from compll.sizes import Size

_SINKS = ("write", "fold", "scan", "keep", "top", "kth", "put")


class SweepReader:
    """Remembers the values of one function, because a use is spelled by its name alone."""

    def __init__(self, tokens: Tokens) -> None:
        self.t = tokens
        self.values: dict[str, ir.Value] = {}

    def definition(self) -> ir.Value:
        name = self.t.take("value")[1:]
        self.t.expect(":")
        dtype, shape, count = self.t.type()
        self.values[name] = ir.Value(name=name, dtype=dtype, shape=shape, count=count)
        return self.values[name]

    def use(self) -> ir.Value:
        if self.t.peek()[1:] not in self.values:
            self.t.fail("a value that is defined above")
        return self.values[self.t.take("value")[1:]]

    def sweep(self) -> ir.Sweep:
        t = self.t
        t.expect("[")
        shape, count = t.extents()
        t.expect("{")
        origin = t.end()
        body = self._body()
        sinks = []
        while t.accept("=>"):
            sinks.append(self._sink())
        t.expect("}")
        t.end()
        return ir.Sweep(shape=shape, count=count, body=body, sinks=tuple(sinks), origin=origin)

    def _body(self) -> ir.Body:
        statements = []
        while self.t.kind() == "name":
            statements.append(self._statement())
        return tuple(statements)

    def _statement(self) -> ir.Statement:
        t = self.t
        name = t.take("name")
        t.expect(":")
        dtype = t.dtype()
        t.expect("=")
        opcode = t.take("name")
        args: list[str] = []
        attributes: list[tuple[str, ir.Attribute]] = []
        source = None
        while t.kind() in ("name", "value"):
            if t.kind() == "value":
                source = self.use()
                continue
            word = t.take("name")
            if t.accept("="):
                attributes.append((word, t.attribute()))
            else:
                args.append(word)
        t.end()
        return ir.Statement(
            name=name, dtype=dtype, opcode=opcode, args=tuple(args), source=source, attributes=tuple(attributes)
        )

    def _sink(self) -> ir.Sink:
        t = self.t
        results = t.listed(self.definition)
        t.expect("=")
        word = t.word("a sink", _SINKS)
        if word in ("fold", "scan"):
            return self._combining(word, results)
        sink = self._plain_sink(word, results)
        t.end()
        return sink

    def _plain_sink(self, word: str, results: tuple[ir.Value, ...]) -> ir.Sink:
        first, t = results[0], self.t
        match word:
            case "write":
                t.expect("(")
                return ir.Write(result=first, value=self._last_name())
            case "keep":
                predicate, limit = self._name_and_size()
                count, cut = results[1:3]
                carried = self._carrying(results[3:])
                return ir.Keep(index=first, count=count, cut=cut, carried=carried, predicate=predicate, limit=limit)
            case "top":
                key, k = self._name_and_size()
                per_row = t.accept("per", "row")
                return ir.Top(index=first, carried=self._carrying(results[1:]), key=key, k=k, per_row=per_row)
            case "kth":
                key, k = self._name_and_size()
                return ir.Kth(result=first, key=key, k=k, per_row=t.accept("per", "row"))
            case _:
                index, value = self._two_names()
                return ir.Put(result=first, base=self.use() if t.accept("onto") else None, index=index, value=value)

    def _last_name(self) -> str:
        name = self.t.take("name")
        self.t.expect(")")
        return name

    def _two_names(self) -> tuple[str, str]:
        self.t.expect("(")
        name = self.t.take("name")
        self.t.expect(",")
        return name, self._last_name()

    def _name_and_size(self) -> tuple[str, Size]:
        self.t.expect("(")
        name = self.t.take("name")
        self.t.expect(",")
        size = self.t.size()
        self.t.expect(")")
        return name, size

    def _carrying(self, values: tuple[ir.Value, ...]) -> tuple[tuple[ir.Value, str], ...]:
        names = self.t.listed(lambda: self.t.take("name")) if self.t.accept("carrying") else ()
        if len(names) != len(values):
            self.t.fail(f"{len(values)} carried scalars")
        return tuple(zip(values, names, strict=True))

    def _combining(self, word: str, results: tuple[ir.Value, ...]) -> ir.Sink:
        t = self.t
        kind: Any = t.word("a combine", get_args(ir.CombineKind))
        t.expect("(")
        value = self._last_name()
        exclusive = t.accept("exclusive")
        per_row = t.accept("per", "row")
        combine = self._custom() if kind == "custom" else ir.Combine(kind=kind)
        t.end()
        if word == "fold":
            return ir.Fold(results=results, combine=combine, value=value, per_row=per_row)
        return ir.Scan(result=results[0], combine=combine, value=value, exclusive=exclusive, per_row=per_row)

    def _custom(self) -> ir.Combine:
        t = self.t
        t.expect("identity", "=")
        identity: Any = t.attribute()
        t.expect("combining")
        left, right = t.listed(lambda: t.take("name"))
        t.expect("into")
        result = t.take("name")
        t.expect("{")
        t.end()
        body = self._body()
        t.expect("}")
        return ir.Combine(kind="custom", identity=identity, left=left, right=right, body=body, result=result)
