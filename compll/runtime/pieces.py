"""Gradients in pieces: partitions that are compressed, travel and keep state on their own.

Borders lie where a program does not see them: at multiples of a chunk for programs on a flat gradient, at rows or
blocks for those on rows or blocks. A program with matrix products or a collective of its own takes gradients whole.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from compll.codegen import ir
from compll.runtime.compressor import Compressor
from compll.runtime.gradients import GradientSpec
from compll.sizes import extent

CHUNK = 4096  # elements: of the reduction tree (docs/numerics.md)

#: What mixes rows.
WHOLE = (ir.MatMul, ir.Transpose, ir.Orthonormalize, ir.AllReduce)


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """`shape` elements of a gradient from its element `start` on, in logical order. `part` is the partition that it
    travels with; `owner` the rank (of those that share the work) that merges it, where a strategy has one."""

    spec: GradientSpec
    start: int
    shape: torch.Size
    part: int = 0
    owner: int = 0

    @property
    def numel(self) -> int:
        return self.shape.numel()

    @property
    def dtype(self) -> torch.dtype:
        return self.spec.dtype

    @property
    def name(self) -> str:
        """The gradient's, with the range of elements unless it is all of it."""
        whole = self.numel == self.spec.shape.numel()
        return self.spec.name if whole else f"{self.spec.name}[{self.start}:{self.start + self.numel}]"

    def of(self, gradient: torch.Tensor) -> torch.Tensor:
        """The piece of a gradient of the spec's shape, as a view."""
        if self.shape == self.spec.shape:
            return gradient
        if len(self.shape) == 1:
            return gradient.view(-1)[self.start : self.start + self.numel]
        row = self.start // self.shape[1:].numel()
        return gradient[row : row + self.shape[0]]


def cut(spec: GradientSpec, parts: int, compressor: Compressor) -> list[Piece]:
    """At most `parts` pieces of nearly equal size, fewer where the program has fewer places to cut."""
    unit = _unit(spec, compressor)
    numel = spec.shape.numel()
    units = 1 if unit is None else -(-numel // unit)
    count = max(1, min(parts, units))
    if unit is None or count == 1:
        return [Piece(spec=spec, start=0, shape=spec.shape)]
    borders = [min(numel, unit * (units * i // count)) for i in range(count + 1)]
    by_rows = compressor.sized(spec.shape, spec.dtype).compilation.program.gradient.kind == "matrix"
    return [
        Piece(spec=spec, start=start, shape=_shape(spec, end - start, by_rows), part=part)
        for part, (start, end) in enumerate(zip(borders, borders[1:], strict=False))
    ]


def _shape(spec: GradientSpec, numel: int, by_rows: bool) -> torch.Size:
    rest = spec.shape[1:]
    return torch.Size((numel // math.prod(rest), *rest)) if by_rows else torch.Size((numel,))


def _unit(spec: GradientSpec, compressor: Compressor) -> int | None:
    """Pieces start at multiples of so many elements; None: the gradient stays whole."""
    sized = compressor.sized(spec.shape, spec.dtype)
    program = sized.compilation.program
    operations = (o for f in program.functions for o in ir.with_inner(f.operations))
    if not spec.shape.numel() or any(isinstance(o, WHOLE) for o in operations):
        return None
    match program.gradient.kind:
        case "matrix":
            return spec.shape.numel() // spec.shape[0]
        case "flat":
            return CHUNK if spec.contiguous else None
        case "blocks":
            block = extent(program.gradient.shape[1], sized.environment)
            return math.lcm(CHUNK, block) if spec.contiguous else None


def assign(spec: GradientSpec, parts: int, compressor: Compressor, loads: list[int]) -> Iterator[Piece]:
    """The pieces of a gradient, each with the one of `len(loads)` ranks that merges it.

    What is large enough is shared by all; what is not goes to the rank that has the least so far. `loads`, elements by
    rank, is updated: call this for all gradients in `named_parameters()` order, so that buckets have no say in it.
    """
    ranks = len(loads)
    groups = cut(spec, parts, compressor)
    shards = cut(spec, len(groups) * ranks, compressor)
    if len(shards) == len(groups) * ranks:
        for position, shard in enumerate(shards):
            yield _owned(shard, part=position // ranks, owner=position % ranks, loads=loads)
    else:
        for group in groups:
            yield _owned(group, part=group.part, owner=loads.index(min(loads)), loads=loads)


def _owned(piece: Piece, *, part: int, owner: int, loads: list[int]) -> Piece:
    loads[owner] += piece.numel
    return Piece(spec=piece.spec, start=piece.start, shape=piece.shape, part=part, owner=owner)
