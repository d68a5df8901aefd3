"""Renaming and inspecting operations, whatever they are: used wherever IR is moved from one function to another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

from compll.codegen import ir

T = TypeVar("T")


def rename(node: T, names: Mapping[str, str]) -> T:
    """The operation (or function, port, ...) with values called by other names; names of scalar statements stay."""
    result: Any = _renamed(node, names)
    return result  # type: ignore[no-any-return]


def _renamed(node: Any, names: Mapping[str, str]) -> Any:
    match node:
        case ir.Value(name=name, count=count):
            return replace(node, name=names.get(name, name), count=names.get(count, count) if count else None)
        case tuple():
            return tuple(_renamed(item, names) for item in node)
        case ir.Sweep(count=count) if count is not None:
            changed = replace(node, count=names.get(count, count))
            return _rebuilt(changed, names)
        case _ if _is_of_ir(node):
            return _rebuilt(node, names)
    return node


def _rebuilt(node: Any, names: Mapping[str, str]) -> Any:
    return replace(node, **{f.name: _renamed(getattr(node, f.name), names) for f in fields(node)})


def _is_of_ir(node: object) -> bool:
    """Whether it may hold values: sizes and dtypes are dataclasses, too, and hold none."""
    return is_dataclass(node) and type(node).__module__.startswith(f"{ir.__name__}.")


def values(node: Any) -> Iterator[ir.Value]:
    """Every value that a node mentions, defined or used, in a fixed order."""
    if isinstance(node, ir.Value):
        yield node
    elif isinstance(node, tuple):
        for item in node:
            yield from values(item)
    elif _is_of_ir(node):
        for f in fields(node):
            yield from values(getattr(node, f.name))


def value_names(function: ir.Function) -> set[str]:
    """The names that are taken in a function."""
    return {value.name for value in values(function)}


def definitions(operations: tuple[ir.Operation, ...]) -> dict[str, ir.Operation]:
    """The operation that defines each value, by name (not inside loops)."""
    return {value.name: operation for operation in operations for value in ir.results(operation)}
