"""What the bodies of a program use, read off the tree before any type is known: calls, draws, collectives, cycles."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from itertools import chain
from typing import Any

from compll.dsl import ast
from compll.primitives import PRIMITIVES


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What a body does, its `fn`s included: draws that other ranks share or not, a collective, work on whole arrays."""

    shared_draw: bool = False
    private_draw: bool = False
    collective: bool = False
    whole_arrays: bool = False

    def union(self, other: Facts) -> Facts:
        return Facts(
            shared_draw=self.shared_draw or other.shared_draw,
            private_draw=self.private_draw or other.private_draw,
            collective=self.collective or other.collective,
            whole_arrays=self.whole_arrays or other.whole_arrays,
        )


def walk(root: Any) -> Iterator[ast.Node]:
    """Every node below (and with) a node or a tuple of nodes, parents first, in source order."""
    pending = [root]
    while pending:
        item = pending.pop()
        if isinstance(item, tuple):
            pending += reversed(item)
        elif isinstance(item, ast.Node):
            yield item
            pending += [getattr(item, f.name) for f in reversed(fields(item)) if f.name not in ("span", "type")]


def calls(root: Any) -> Iterator[ast.Call]:
    """Every call below, in source order."""
    return (node for node in walk(root) if isinstance(node, ast.Call))


def is_shared(call: ast.Call) -> bool:
    """Whether a draw says `shared = true`."""
    return any(a.name == "shared" and isinstance(a.value, ast.Boolean) and a.value.value for a in call.arguments)


def references(root: Any, functions: Mapping[str, ast.Function]) -> set[str]:
    """The `fn`s that a body calls or hands on as values."""
    named = {node.name for node in walk(root) if isinstance(node, ast.Name)}
    return {call.function for call in calls(root)}.union(named).intersection(functions)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallGraph:
    """`levels`: the `fn`s in order, each after all that it calls; `cycle`: one cycle in calling order, if any."""

    levels: tuple[tuple[str, ...], ...]
    cycle: tuple[str, ...]


def call_graph(functions: Mapping[str, ast.Function]) -> CallGraph:
    """Who calls whom among the `fn`s; those on or above a cycle are in no level."""
    remaining = {name: references(function.body, functions) for name, function in functions.items()}
    levels: list[tuple[str, ...]] = []
    while leaves := tuple(name for name, callees in remaining.items() if not callees & remaining.keys()):
        levels.append(leaves)
        for name in leaves:
            del remaining[name]
    path: list[str] = []
    step = next(iter(remaining), None)
    while step is not None and step not in path:
        path.append(step)
        step = min(remaining[step] & remaining.keys())
    return CallGraph(levels=tuple(levels), cycle=tuple(path[path.index(step) :] if step is not None else ()))


def facts_of_functions(functions: Mapping[str, ast.Function], graph: CallGraph) -> dict[str, Facts]:
    """The facts of every `fn` that has a level, those it calls included."""
    known: dict[str, Facts] = {}
    for name in chain.from_iterable(graph.levels):
        known[name] = own_facts(functions[name].body)
        for callee in sorted(references(functions[name].body, functions)):
            known[name] = known[name].union(known[callee])
    return known


def own_facts(root: Any) -> Facts:
    """The facts of a body without those of the `fn`s that it calls."""
    return _own(calls(root)).union(Facts(whole_arrays=any(isinstance(n, ast.Repeat) for n in walk(root))))


def _own(found: Iterable[ast.Call]) -> Facts:
    result = Facts()
    for call in found:
        spec = PRIMITIVES.get(call.function)
        if spec is None:
            continue
        draw, shared = spec.pattern == "random", is_shared(call)
        result = result.union(
            Facts(
                shared_draw=draw and shared,
                private_draw=draw and not shared,
                collective=spec.pattern == "collective",
                whole_arrays=not is_elementwise(call),
            )
        )
    return result


def is_elementwise(call: ast.Call) -> bool:
    """Whether a primitive computes a scalar from scalars, so that a lambda may call it."""
    if call.function in ("min", "max"):
        return len(call.arguments) == 2 and all(a.name in (None, "x", "y") for a in call.arguments)
    elementwise = PRIMITIVES[call.function].pattern in ("map", "size")
    return elementwise and call.function not in ("map", "iota", "fill")
