"""What is compressed: the shapes of one gradient or of all of a model, and fresh values for every step."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from importlib import resources

import torch

from compll.cli.values import parse_shape
from compll.diagnostics import CompllError

FLAT = "flat:"
SUFFIX = ".txt"

#: The standard deviation of the gradients: of the order of real ones, for programs whose threshold is a parameter.
DEVIATION = 1e-3

#: Offsets into the pool are whole cache lines of f32, so that every gradient is aligned as a fresh buffer is.
LINE = 16
LINES = 4096

#: Consecutive multiples of it, modulo a power of two, are far apart (Knuth, TAOCP 3, section 6.4).
STRIDE = 2654435769


@dataclass(frozen=True)
class Workload:
    """Gradients of `shapes`, which lie one behind the other as in a bucket of DDP."""

    name: str
    shapes: tuple[tuple[int, ...], ...]
    device: torch.device

    @property
    def numel(self) -> int:
        return sum(map(math.prod, self.shapes))

    @cached_property
    def _pool(self) -> torch.Tensor:
        generator = torch.Generator(self.device).manual_seed(0)
        pool = torch.empty(self.numel + LINE * LINES, device=self.device)
        return pool.normal_(0.0, DEVIATION, generator=generator)

    def flat(self, step: int) -> torch.Tensor:
        """All gradients of a step as one tensor, f32 [numel]: a window of a pool of normal values that moves from step
        to step, so that no element sees the same value twice in a row."""
        start = LINE * (step * STRIDE % LINES)
        return self._pool[start : start + self.numel]

    def gradients(self, step: int) -> list[torch.Tensor]:
        """The gradients of a step, views of `flat`."""
        pieces = self.flat(step).split([math.prod(shape) for shape in self.shapes])
        return [piece.view(shape) for piece, shape in zip(pieces, self.shapes, strict=True)]

    def flattened(self) -> Workload:
        """As many elements in one tensor."""
        return Workload(name=f"{FLAT}{self.numel}", shapes=((self.numel,),), device=self.device)


def parse_workload(text: str, device: torch.device) -> Workload:
    """`flat:N`, `ROWSxCOLS`, or the name of a model. Raises CompllError on anything else, and without elements."""
    if text in model_names():
        shapes = read_model(text)
    elif text[:1].isdigit() or text.startswith(FLAT):
        shapes = (parse_shape(text.removeprefix(FLAT)),)
    else:
        raise CompllError(f"shapes need {FLAT}N, ROWSxCOLS or a model ({', '.join(model_names())}), got `{text}`")
    workload = Workload(name=text, shapes=shapes, device=device)
    if workload.numel == 0:
        raise CompllError(f"shapes `{text}` have no elements: there is nothing to measure")
    return workload


def model_names() -> tuple[str, ...]:
    """The models whose shapes ship with the package, sorted."""
    files = resources.files("compll.shapes").iterdir()
    return tuple(sorted(f.name.removesuffix(SUFFIX) for f in files if f.name.endswith(SUFFIX)))


def read_model(name: str) -> tuple[tuple[int, ...], ...]:
    """The shapes of all gradients of a model, in the order of its `named_parameters()`."""
    text = (resources.files("compll.shapes") / f"{name}{SUFFIX}").read_text(encoding="utf-8")
    lines = (line for line in text.splitlines() if not line.startswith("#"))
    return tuple(parse_shape(line.split()[1]) for line in lines)
