"""Merging: the payloads of several ranks added up in one launch, in order, with the bits of `decode` and `decode_add`,
and divided by how many ranks there are.

Where decode is one walk that writes every element once, a thread adds up its elements in registers, divides and writes
them once. Else the phases of decode are followed by those of decode_add, for one payload of every row after the other,
and by one that divides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from compll.codegen.emit.cuda_context import Context, DeviceFunction, Turns, comments_of
from compll.codegen.emit.cuda_groups import Group, Printed, Step, phase_lines
from compll.codegen.emit.cuda_launch import THREADS, FusedMerge, PhasedMerge, Work, launch_bounds
from compll.codegen.emit.cuda_replay import SweepBody
from compll.codegen.emit.environment import render
from compll.codegen.walks import walk_of
from compll.sizes import Var, product

NAME = "merge"
RESERVED_ROWS = 1  # in front of the spans: how many turns of decode_add there are


@dataclass(frozen=True, slots=True, kw_only=True)
class CudaMerge:
    """The kernel of a merge, printed, and how the host runs it."""

    text: str
    launch: FusedMerge | PhasedMerge


@dataclass(frozen=True, slots=True, kw_only=True)
class _FusedView:
    """templates/cuda/merge.cu.j2: `value` is what a payload says of position `i`."""

    comments: Sequence[str]
    bounds: str
    name: str
    segment: str
    extent: str
    load: str
    uniform: Sequence[str]
    body: Sequence[str]
    value: str
    store: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _PhasedView:
    """templates/cuda/merge_phases.cu.j2; `pool` in words of 8 bytes, `divide` the span of what divides."""

    bounds: str
    name: str
    first: str
    other: str
    pool: int
    decode: Sequence[str]
    decode_add: Sequence[str]
    divide: int


def print_fused(context: Context) -> CudaMerge | None:
    """For the plan of a decode; None where it does more than one walk."""
    walk, memory = walk_of(context.plan), context.memory
    if walk is None:
        return None
    sweep, sink = walk.sweep, walk.sink
    body = SweepBody(context=context, kernel=walk.kernel.name, sweep=sweep, by_rows=False)
    lines = body.print((sink.value,), before=True)
    view = _FusedView(
        comments=comments_of(sweep.origin), bounds=launch_bounds(THREADS), name=NAME, segment=context.segment,
        extent=memory.space(sweep.shape), load=memory.load(sink.result, "i"), uniform=lines.uniform,
        body=lines.inner, value=lines.name(sink.value),
        store=memory.store(sink.result, "i", "compll::merge_quotient(total[next], divisor)"),
    )  # fmt: skip
    launch = FusedMerge(function=NAME, work=Work(product(sweep.shape)))
    return CudaMerge(text=render("cuda/merge.cu.j2", view), launch=launch)


def print_phased(
    first: Context, decode: Sequence[Printed], other: Context, decode_add: Sequence[Printed]
) -> CudaMerge | None:
    """For everything that runs in the two functions; None where some of it is no kernel."""
    starting, adding = _steps(decode), _steps(decode_add)
    if len(starting) < len(decode) or len(adding) < len(decode_add):
        return None
    functions = [*Group(starting).functions, *Group(adding).functions]
    first_works = tuple(dict.fromkeys(f.work for f in Group(starting).functions))
    other_works = tuple(dict.fromkeys(f.work for f in Group(adding).functions))
    dividing = RESERVED_ROWS + len(first_works)
    ahead = dividing + 1
    view = _PhasedView(
        bounds=launch_bounds(THREADS), name=NAME, first=first.segment, other=other.segment,
        pool=max(function.pool for function in functions) // 8,
        decode=phase_lines("first", starting, lambda work: str(RESERVED_ROWS + first_works.index(work))),
        decode_add=phase_lines(
            "other", adding, lambda work: f"{ahead + other_works.index(work)} + {len(other_works)} * payload"
        ),
        divide=dividing,
    )  # fmt: skip
    launch = PhasedMerge(
        function=NAME, first_works=first_works, dividing=Work(Var("numel")), other_works=other_works
    )  # fmt: skip
    return CudaMerge(text=render("cuda/merge_phases.cu.j2", view), launch=launch)


def _steps(printed: Sequence[Printed]) -> tuple[Step, ...]:
    return tuple(step for step in printed if isinstance(step, (DeviceFunction, Turns)))
