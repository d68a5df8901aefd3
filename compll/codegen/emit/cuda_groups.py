"""Which functions of tiles share a launch, and the text of launches.

Consecutive functions become phases of one cooperative launch, parted by a barrier in device code, so that a function of
the compressor costs few launches however many steps and tensors it has. A function alone is launched plainly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from compll.codegen.emit.cuda_context import Context, DeviceFunction, Turns
from compll.codegen.emit.cuda_launch import (
    THREADS,
    Exchange,
    Launch,
    LibraryCall,
    Phases,
    Work,
    launch_bounds,
)
from compll.codegen.emit.environment import render
from compll.codegen.emit.names import Names
from compll.codegen.plan import KernelPlan

#: Launches of a function without library calls: of one that reads the gradient, and of any other.
MOST_WITH_GRADIENT = 3
MOST = 2

Step = DeviceFunction | Turns
Printed = Step | LibraryCall | Exchange


@dataclass(frozen=True, slots=True)
class Group:
    """Steps of one launch."""

    steps: tuple[Step, ...]

    @property
    def functions(self) -> list[DeviceFunction]:
        """All functions, in order; one that runs several times once for each place where it stands."""
        return list(_functions(self.steps))


def _functions(steps: Sequence[Step]) -> Iterator[DeviceFunction]:
    for step in steps:
        if isinstance(step, DeviceFunction):
            yield step
        else:
            yield from _functions(step.steps)


def group(plan: KernelPlan, steps: Sequence[Printed]) -> list[Group | LibraryCall | Exchange]:
    """The launches between library calls and exchanges, in order."""
    most = MOST_WITH_GRADIENT if any(buffer.role == "gradient" for buffer in plan.buffers) else MOST
    result: list[Group | LibraryCall | Exchange] = []
    waiting: list[Step] = []
    for step in steps:
        if isinstance(step, (DeviceFunction, Turns)):
            waiting.append(step)
        else:
            result += [*_cut(waiting, most), step]
            waiting = []
    return [*result, *_cut(waiting, most)]


def _cut(steps: Sequence[Step], most: int) -> list[Group]:
    """Launches for consecutive steps: each alone where they are few; else what moves most alone, so that no phase that
    needs more registers or shared memory slows it down; else all as one."""
    if len(steps) <= most and all(isinstance(step, DeviceFunction) for step in steps):
        return [Group((step,)) for step in steps]
    streamed = [step.streamed if isinstance(step, DeviceFunction) else 0 for step in steps]
    if most >= 3 and max(streamed) > 0:
        at = streamed.index(max(streamed))
        parts = (tuple(steps[:at]), (steps[at],), tuple(steps[at + 1 :]))
        return [Group(part) for part in parts if part]
    return [Group(tuple(steps))]


# --- text ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _LaunchView:
    """templates/cuda/launch.cu.j2 and, with `body`, phases.cu.j2; `pool` in words of 8 bytes."""

    bounds: str
    name: str
    segment: str
    pool: int
    body: Sequence[str] = ()


def print_group(context: Context, given: Group, names: Names) -> tuple[str, Launch | Phases]:
    """The kernel of a group, to stand behind its functions, and how it is launched; `names` are taken."""
    first = given.steps[0]
    if len(given.steps) == 1 and isinstance(first, DeviceFunction):
        view = _LaunchView(
            bounds=launch_bounds(first.block), name=first.name, segment=context.segment, pool=first.pool // 8
        )
        return render("cuda/launch.cu.j2", view), Launch(function=first.name, work=first.work, block=first.block)
    functions = given.functions
    works = tuple(dict.fromkeys(function.work for function in functions))
    name = names.fresh(context.function_name("phases"))
    body = phase_lines("grid", given.steps, lambda work: str(works.index(work)))
    if isinstance(given.steps[-1], DeviceFunction):
        body.pop()  # nobody waits for the last
    view = _LaunchView(
        bounds=launch_bounds(THREADS), name=name, segment=context.segment,
        pool=max(function.pool for function in functions) // 8, body=body,
    )  # fmt: skip
    return render("cuda/phases.cu.j2", view), Phases(function=name, works=works, phases=_names(given.steps))


def phase_lines(grid: str, steps: Sequence[Step], place: Callable[[Work], str]) -> list[str]:
    """The statements that run the steps, a barrier behind each; `place` says where a work's tiles are listed.

    Between steps of one tile for each segment there is no barrier: the block that has a segment's tile in one has it in
    the next.
    """
    lines: list[str] = []
    for step, following in zip_longest(steps, steps[1:]):
        if isinstance(step, Turns):
            lines += _turn_lines(grid, step, place)
            continue
        lines.append(f"{grid}.run<{step.name}_tile>({place(step.work)});")
        if not (step.work.size is None and isinstance(following, DeviceFunction) and following.work.size is None):
            lines.append(f"{grid}.meet();")
    return lines


def _turn_lines(grid: str, turns: Turns, place: Callable[[Work], str]) -> list[str]:
    head = phase_lines(grid, turns.steps[: turns.decided], place)
    body = phase_lines(grid, turns.steps[turns.decided :], place)
    leave: list[str] = []
    if turns.active and body:
        test = f"[](const auto& s) {{ return {turns.active} != 0; }}"
        leave.append(f"if (!{grid}.any({place(Work(None))}, {test})) break;")
    lines = [*head, *leave, *body]
    return [f"for (unsigned turn = 0; turn < {turns.count}; ++turn) {{", *(f"    {line}" for line in lines), "}"]


def _names(steps: Sequence[Step]) -> tuple[str, ...]:
    names: list[str] = []
    for step in steps:
        if isinstance(step, DeviceFunction):
            names.append(step.name)
        else:
            names += [f"{step.count} x {name}" for name in _names(step.steps)]
    return tuple(names)
