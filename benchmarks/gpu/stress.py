"""For a while: random programs' batches of random shapes on random streams, each compared with the CPU backend."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from time import perf_counter

import torch

import compll

STREAMS = 4
MOST_TENSORS = 12
STEPS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class StressResult:
    """`wrong` says what differed, and with which random seed the case can be repeated."""

    cases: int
    elements: int
    seconds: float
    wrong: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Subject:
    """What is compared: `backend` on `device`, with the CPU."""

    backend: str
    device: torch.device
    largest: int  # elements of a tensor


def stress(names: Sequence[str], subject: Subject, seconds: float, seed: int = 0) -> StressResult:
    """Run cases of one seed after the other until the time is over; at least one."""
    start, cases, elements, wrong = perf_counter(), 0, 0, []
    while cases == 0 or perf_counter() - start < seconds:
        found, count = case(names, subject, seed + cases)
        wrong += [f"seed {seed + cases}: {text}" for text in found]
        cases += 1
        elements += count
    return StressResult(cases=cases, elements=elements, seconds=perf_counter() - start, wrong=tuple(wrong))


def case(names: Sequence[str], subject: Subject, seed: int) -> tuple[list[str], int]:
    """One program and batch for some steps: what differed, and how many elements were compressed."""
    chance = random.Random(seed)
    name = chance.choice(list(names))
    shapes = [_shape(chance, subject.largest) for _ in range(chance.randint(1, MOST_TENSORS))]
    steps = [[torch.randn(shape, generator=torch.Generator().manual_seed(chance.getrandbits(32))) for shape in shapes]
             for _ in range(STEPS)]  # fmt: skip
    streams = _streams(subject.device)
    there = _run(name, subject.backend, subject.device, steps, [chance.choice(streams) for _ in steps])
    here = _run(name, "cpu", torch.device("cpu"), steps, [None] * STEPS)
    differing = [
        f"{name}, step {step}, {what} of shape {tuple(shapes[place])}"
        for (step, what, place, found), (*_, wanted) in zip(there, here, strict=True)
        if not torch.equal(_bits(found), _bits(wanted))
    ]
    return differing, STEPS * sum(shape.numel() for shape in shapes)


def _shape(chance: random.Random, largest: int) -> torch.Size:
    numel = int(2 ** chance.uniform(0, torch.tensor(float(largest)).log2().item()))
    rows = chance.choice([1, 1, 3, 64])
    return torch.Size((rows, max(1, numel // rows)) if rows > 1 else (numel,))


def _streams(device: torch.device) -> list[torch.cuda.Stream | None]:
    return [None, *(torch.cuda.Stream(device) for _ in range(STREAMS))] if device.type == "cuda" else [None]


Outcome = tuple[int, str, int, torch.Tensor]


def _run(
    name: str, backend: str, device: torch.device, steps: Sequence[Sequence[torch.Tensor]],
    streams: Sequence[torch.cuda.Stream | None],
) -> list[Outcome]:  # fmt: skip
    """(step, what, place in the batch, tensor) for everything that leaves the compressor."""
    compressor = compll.load(name, backend=backend)
    first = [g.to(device) for g in steps[0]]
    states = [compressor.init_state(g, key=compll.Key(gradient=i)) for i, g in enumerate(first)]
    found: list[Outcome] = []
    for step, (gradients, stream) in enumerate(zip(steps, streams, strict=True)):
        keys = [compll.Key(step=step, gradient=i) for i in range(len(gradients))]
        with _on(stream):
            there = [g.to(device) for g in gradients]
            sent = compressor.encode_batch(there, states, keys)
            outs = [torch.empty_like(g) for g in there]
            compressor.decode_batch([[payload] for payload in sent], outs)
        found += _brought(step, "payload", [payload.buffer for payload in sent])
        found += _brought(step, "decoded", outs)
    for place, state in enumerate(states):
        found += [(STEPS, what, place, tensor.cpu()) for what, tensor in state.tensors()]
    return found


def _on(stream: torch.cuda.Stream | None) -> AbstractContextManager[object]:
    """The stream, after what came before; a step ends with reading its results, so the next may go anywhere."""
    if stream is None:
        return nullcontext()
    stream.wait_stream(torch.cuda.current_stream())
    return torch.cuda.stream(stream)


def _brought(step: int, what: str, tensors: Sequence[torch.Tensor]) -> Iterator[Outcome]:
    if any(tensor.is_cuda for tensor in tensors):
        torch.cuda.synchronize()
    for place, tensor in enumerate(tensors):
        yield step, what, place, tensor.cpu()


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous().view(-1).view(torch.uint8)
