"""Whether a program is small enough to be checked and compiled, read off the tree before any type is known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

from compll.diagnostics import CompllError, Diagnostic
from compll.dsl import ast
from compll.dsl.facts import CallGraph, walk
from compll.dsl.limits import MAX_FIELDS, MAX_STEPS

_STEPS = (
    ast.SizeDefinition, ast.Let, ast.Assign, ast.Clear, ast.Repeat, ast.Return, ast.ReturnFields,
    ast.Unary, ast.Binary, ast.Conditional, ast.Call, ast.Cast, ast.Element, ast.Lambda,
)  # fmt: skip


def check_limits(compressor: ast.Compressor, functions: Mapping[str, ast.Function], graph: CallGraph) -> None:
    """Raise CompllError for too many fields, states, or statements and operations once `fn`s are expanded."""
    problems = [*_too_many(compressor.payload, "fields in a payload"), *_too_many(compressor.states, "states")]
    problems += _too_long(compressor, functions, graph)
    if problems:
        raise CompllError(sorted(problems, key=lambda problem: problem.span.start if problem.span else 0))


def _too_many(nodes: Sequence[ast.Node], what: str) -> Iterator[Diagnostic]:
    for node in nodes[MAX_FIELDS : MAX_FIELDS + 1]:
        yield Diagnostic(code="E0138", message=f"at most {MAX_FIELDS} {what}, got {len(nodes)}", span=node.span)


def _too_long(
    compressor: ast.Compressor, functions: Mapping[str, ast.Function], graph: CallGraph
) -> Iterator[Diagnostic]:
    """A report at the statement with which the program becomes too long."""
    steps: dict[str, int] = {}
    for name in chain.from_iterable(graph.levels):
        steps[name] = _steps(functions[name].body, steps)
    decode = compressor.decode.body if compressor.decode is not None else ()
    total = 0
    for part in (*compressor.states, *compressor.encode.body, *decode):
        total += _steps(part, steps)
        if total > MAX_STEPS:
            message = f"at most {MAX_STEPS} statements and operations in a program, got {total} up to here"
            hint = "a `fn` counts anew wherever it is called" if steps else ""
            yield Diagnostic(code="E0138", message=message, span=part.span, hint=hint)
            return


def _steps(root: object, known: Mapping[str, int]) -> int:
    """The statements and operations below a node, `fn`s expanded; those on a cycle, which is an error, count once."""
    nodes = list(walk(root))
    called = Counter(node.function for node in nodes if isinstance(node, ast.Call))
    called.update(node.name for node in nodes if isinstance(node, ast.Name))  # a `fn` handed on as a value
    inside = sum(known[name] * times for name, times in called.items() if name in known)
    return sum(isinstance(node, _STEPS) for node in nodes) + inside
