"""Steps under construction: what `kernels.py` moves around before it numbers and names them.

A block is a list of steps in order; a loop is a step with two blocks of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Union

from compll.codegen import ir, uses
from compll.codegen.plan import DecodeAscending, EncodeAscending, LoadCount, StoreCount
from compll.codegen.rewrite import rename


@dataclass
class LoopSteps:
    """A loop whose regions are blocks."""

    loop: ir.Loop
    head: Block
    body: Block


Transfer = Union[EncodeAscending, DecodeAscending, StoreCount, LoadCount]
Step = Union[
    ir.Sweep, ir.Sort, ir.MatMul, ir.Transpose, ir.Orthonormalize, ir.AllReduce,
    EncodeAscending, DecodeAscending, StoreCount, LoadCount, LoopSteps,
]  # fmt: skip
Block = list[Step]


def block_of(operations: Iterable[ir.Operation]) -> Block:
    """Operations as steps."""
    return [
        LoopSteps(o, block_of(o.head), block_of(o.body)) if isinstance(o, ir.Loop) else o for o in operations
    ]


def written(step: Step) -> tuple[ir.Value, ...]:
    """The values that a step brings into memory, outside those of a loop's own blocks."""
    match step:
        case LoopSteps(loop=loop):
            return ir.results(loop)
        case DecodeAscending() | LoadCount():
            return (step.result,)
        case EncodeAscending() | StoreCount():
            return ()
    return ir.results(step)


def read(step: Step) -> tuple[ir.Value, ...]:
    """The values that a step reads, those read inside a loop included."""
    match step:
        case LoopSteps(loop=loop, head=head, body=body):
            inside = (value for inner in (*head, *body) for value in read(inner))
            return (*(carried.initial for carried in loop.carried), loop.condition, *inside)
        case EncodeAscending(source=source, count=count):
            return (source,) if count is None else (source, count)
        case DecodeAscending(count=count):
            return () if count is None else (count,)
        case StoreCount(source=source):
            return (source,)
        case LoadCount():
            return ()
    return uses.reads(step)


def reads(step: Step, name: str) -> bool:
    return any(value.name == name for value in read(step))


def renamed(step: Step, names: Mapping[str, str]) -> Step:
    """The step reading other values."""
    match step:
        case LoopSteps(loop=loop, head=head, body=body):
            outer = replace(rename(loop, names), head=(), body=())
            return LoopSteps(outer, [renamed(s, names) for s in head], [renamed(s, names) for s in body])
        case EncodeAscending() | DecodeAscending() | StoreCount():
            return _renamed_transfer(step, names)
        case LoadCount():
            return step
    return rename(step, names)


def _renamed_transfer(step: EncodeAscending | DecodeAscending | StoreCount, names: Mapping[str, str]) -> Transfer:
    match step:
        case EncodeAscending(source=source, count=count):
            return replace(step, source=rename(source, names), count=rename(count, names))
        case StoreCount(source=source):
            return replace(step, source=rename(source, names))
        case DecodeAscending(count=count):
            return replace(step, count=rename(count, names))


def copying(source: ir.Value, result: ir.Value) -> ir.Sweep:
    """A sweep that copies one value."""
    return copying_all([(source, result)])


def copying_all(pairs: Iterable[tuple[ir.Value, ir.Value]]) -> ir.Sweep:
    """A sweep that copies several values over one space, as if at once."""
    pairs = list(pairs)
    body = tuple(ir.Statement(name=s.name, dtype=s.dtype, opcode="load", source=s) for s, _ in pairs)
    sinks = tuple(ir.Write(result=result, value=source.name) for source, result in pairs)
    first = pairs[0][0]
    return ir.Sweep(shape=first.shape, count=first.count, body=_distinct(body), sinks=sinks)


def _distinct(body: ir.Body) -> ir.Body:
    return tuple({statement.name: statement for statement in body}.values())


def all_steps(block: Block) -> Iterator[Step]:
    """Every step, the blocks of loops after the loop itself."""
    for step in block:
        yield step
        if isinstance(step, LoopSteps):
            yield from all_steps(step.head)
            yield from all_steps(step.body)


@dataclass
class Names:
    """Fresh names for values."""

    taken: set[str] = field(default_factory=set)

    def fresh(self, wish: str) -> str:
        name, suffix = wish, 1
        while name in self.taken:
            suffix += 1
            name = f"{wish}_{suffix}"
        self.taken.add(name)
        return name

    def like(self, value: ir.Value, wish: str) -> ir.Value:
        return replace(value, name=self.fresh(wish))
