"""Other ways to do a compressor's work, timed beside it.

What is written by hand in torch lies in the repository outside the package, in `benchmarks/baselines`: an installed one
has none. What a program's IR tells, `torch.topk` for a selection, needs no repository.
"""

from __future__ import annotations

import importlib
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Protocol

import torch
from torch.nn.functional import pad

import compll
from compll.cli.benchmark.compiled import Compiled, compiled
from compll.cli.benchmark.contest import Contestant
from compll.cli.benchmark.workload import Workload
from compll.codegen import ir
from compll.codegen.interpret import size_environment
from compll.runtime.program import Sized
from compll.runtime.state import State
from compll.sizes import extent

REPOSITORY = Path(compll.__file__).parents[1]

Memory = dict[str, torch.Tensor]


class Plain(Protocol):
    """A compressor written by hand in torch."""

    def step(self, gradient: torch.Tensor, memory: Memory, step: int, *, feedback: bool) -> object:
        """Compress one gradient, with feedback of gradient plus `memory["residual"]`, and update `memory`."""
        ...


class Baselines(Protocol):
    """The module `benchmarks.baselines`."""

    def plain(self, name: str, params: Mapping[str, float | int | bool]) -> Plain | None: ...


@cache
def baselines() -> Baselines | None:
    """The formulas written by hand, or None where the repository is not there."""
    if not (REPOSITORY / "benchmarks" / "baselines").is_dir():
        return None
    if str(REPOSITORY) not in sys.path:
        sys.path.append(str(REPOSITORY))
    module: Baselines = importlib.import_module("benchmarks.baselines")
    return module


def peers(mine: Compiled) -> Iterator[Contestant]:
    """The one that speedups are told against comes first."""
    formulas = baselines()
    plain = formulas.plain(mine.compressor.name, mine.compressor.params) if formulas else None
    if plain:
        yield _loop(plain, mine)
    yield from _selections(mine)
    yield _half(mine.workload)
    if len(mine.workload.shapes) > 1 and _is_flat(mine.compressor):
        yield _one_tensor(mine)


def _loop(plain: Plain, mine: Compiled) -> Contestant:
    """Tensor by tensor, as a hook written in torch does it; memory starts where the compiled states are."""
    memories = [_memory(state) for state in mine.states]

    def step(number: int) -> None:
        for gradient, memory in zip(mine.workload.gradients(number), memories, strict=True):
            plain.step(gradient, memory, number, feedback=mine.compressor.feedback)

    return Contestant("plain torch" if len(memories) == 1 else "plain torch, a tensor at a time", step)


def _memory(state: State) -> Memory:
    residual = {} if state.residual is None else {"residual": state.residual.clone()}
    return residual | {name: tensor.clone() for name, tensor in state.states.items()}


def _selections(mine: Compiled) -> Iterator[Contestant]:
    """`torch.topk` of the magnitudes, where the program selects k elements of the gradient."""
    shapes = mine.workload.shapes
    counts = [selected(mine.compressor.sized(shape)) for shape in shapes]
    if None in counts:
        return

    def step(number: int) -> None:
        for gradient, count in zip(mine.workload.gradients(number), counts, strict=True):
            assert count is not None
            k, view = count
            torch.topk(_viewed(gradient.view(-1), view).abs(), k, sorted=False)

    yield Contestant("torch.topk alone", step)


def _viewed(flat: torch.Tensor, view: tuple[int, ...]) -> torch.Tensor:
    missing = math.prod(view) - flat.numel()
    return (pad(flat, (0, missing)) if missing else flat).view(view)  # pad copies even when there is nothing to add


def selected(sized: Sized) -> tuple[int, tuple[int, ...]] | None:
    """(k, view) where encode takes the k largest of the whole gradient, or of every row of that zero-padded view."""
    program = sized.compilation.program
    sizes = size_environment(program, sized.environment)
    for sweep in _sweeps(program.function("encode").operations):
        for sink in sweep.sinks:
            if isinstance(sink, ir.Top) and sweep.shape == program.gradient.shape:
                return extent(sink.k, sizes), tuple(extent(size, sizes) for size in sweep.shape)
    return None


def _sweeps(operations: Sequence[ir.Operation]) -> Iterator[ir.Sweep]:
    return (operation for operation in operations if isinstance(operation, ir.Sweep))


def _half(workload: Workload) -> Contestant:
    """What PyTorch's bf16 hook does before it sends: cast and divide."""
    return Contestant("bf16 cast", lambda number: workload.flat(number).to(torch.bfloat16).div_(2))


def _is_flat(compressor: compll.Compressor) -> bool:
    return compressor.sized((64, 64)).compilation.program.gradient.kind == "flat"


def _one_tensor(mine: Compiled) -> Contestant:
    """The same kernels on one tensor of as many elements: what a batch is to come close to."""
    flat = compiled(mine.compressor, mine.workload.flattened())
    flat.warm()
    return Contestant("one flat tensor", flat.encode)
