"""What a law is, what came of it, and the compressor that it is asked of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from compll.battery.inputs import Shape
from compll.diagnostics import CompllError
from compll.runtime.compressor import Compressor
from compll.runtime.key import Key
from compll.runtime.payload import Payload
from compll.runtime.state import State

KEY = Key(seed=1, step=2, gradient=3, rank=0)


class Violation(Exception):
    """The law does not hold; the message says where, what was needed and what was found."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A compressor on one backend, and the same program on the reference backend."""

    compressor: Compressor
    reference: Compressor
    backend: str
    device: torch.device = torch.device("cpu")

    def on_device(self, tensor: Tensor) -> Tensor:
        return tensor.to(self.device)

    def accepted(self, shapes: Iterable[Shape]) -> Iterator[Shape]:
        """The shapes that the program does not refuse by name (a size may have no meaning for a short gradient)."""
        return (shape for shape in shapes if refusal(self.compressor, shape) is None)

    def encode(self, gradient: Tensor, state: State | None = None, key: Key = KEY) -> tuple[Payload, State]:
        """The payload, and the state after it; without a state, from the initial one."""
        gradient = self.on_device(gradient)
        state = self.compressor.init_state(gradient, key=key) if state is None else state
        return self.compressor.encode(gradient, state, key=key), state

    def decoded(self, payload: Payload, gradient: Tensor) -> Tensor:
        """The dense result, brought to the CPU."""
        return self.compressor.decode(payload, like=self.on_device(gradient)).cpu()


@dataclass(frozen=True, slots=True, kw_only=True)
class Law:
    """`check` returns what it saw or raises Violation. `applies` tells whether a program is bound by it."""

    name: str
    check: Callable[[Subject], str]
    applies: Callable[[Compressor], bool] = lambda compressor: True
    needs_reference: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LawResult:
    law: str
    backend: str
    ok: bool
    detail: str


def bound_by(trait: str) -> Callable[[Compressor], bool]:
    """Only programs that declare the trait (for these parameter values)."""
    return lambda compressor: trait in compressor.traits


def refusal(compressor: Compressor, shape: Shape) -> str | None:
    """Why the program takes no gradient of this shape, or None."""
    try:
        compressor.payload_bytes(shape, torch.float32)
    except CompllError as problem:
        return str(problem)
    return None


def need(condition: bool, message: str) -> None:
    """Raise Violation with the message unless the condition holds."""
    if not condition:
        raise Violation(message)


def same_bits(left: Tensor, right: Tensor) -> bool:
    """Equal shapes, dtypes and bytes; a NaN equals itself."""
    if left.dtype != right.dtype or left.shape != right.shape:
        return False
    return torch.equal(bits(left), bits(right))


def bits(tensor: Tensor) -> Tensor:
    """The tensor's bytes on the CPU."""
    return tensor.detach().cpu().contiguous().view(-1).view(torch.uint8)


def first_difference(left: Tensor, right: Tensor) -> str:
    """`at 17: 0.5 and 0.25`, the first place where two tensors of equal shape differ in bits."""
    a, b = left.detach().cpu().reshape(-1), right.detach().cpu().reshape(-1)
    if a.shape != b.shape:
        return f"lengths {a.numel()} and {b.numel()}"
    width = a.element_size()
    places = (bits(a) != bits(b)).view(-1, width).any(1).nonzero()
    position = int(places[0])
    return f"at {position}: {a[position].item()} and {b[position].item()}"
