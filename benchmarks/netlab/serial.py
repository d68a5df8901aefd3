"""A hook as one writes it by hand: gradient by gradient, everything waited for where it stands, nothing overlapped.

The first steps of the ablation: with a compressor in plain torch, and with the compiled one in its place. DDP reads the
hook's annotations, so this module does without `from __future__ import annotations`.
"""

from typing import Protocol

import torch
import torch.distributed as dist
from torch import Tensor

import compll
from benchmarks.baselines import plain
from benchmarks.formulas.base import Memory
from compll.runtime.collectives import gather_into

RATIO = 0.01


class Codec(Protocol):
    """Of one rank, with error feedback; gradients are told apart by `number`."""

    def encode(self, number: int, gradient: Tensor, step: int) -> Tensor:
        """The payload, 1-D uint8, of equal length on all ranks."""
        ...

    def decode_mean(self, number: int, payloads: Tensor, gradient: Tensor) -> None:
        """Put the mean of `payloads`, one row for each rank, in the place of `gradient`."""
        ...


class TopKInTorch:
    """`torch.topk` and the residual with library calls on whole tensors; positions travel as int32."""

    def __init__(self, ratio: float = RATIO) -> None:
        baseline = plain("topk", {"ratio": ratio})
        assert baseline is not None
        self._baseline = baseline
        self._memories: dict[int, Memory] = {}

    def encode(self, number: int, gradient: Tensor, step: int) -> Tensor:
        memory = self._memories.setdefault(number, {})
        payload = self._baseline.step(gradient, memory, step, feedback=True)[0]  # type: ignore[index]
        index, value = payload["index"].to(torch.int32), payload["value"]
        return torch.cat([index.view(torch.uint8), value.view(torch.uint8)])

    def decode_mean(self, number: int, payloads: Tensor, gradient: Tensor) -> None:
        index, value = payloads.view(len(payloads), 2, -1).unbind(1)
        flat = gradient.zero_().view(-1)
        for positions, values in zip(index.view(torch.int32), value.view(torch.float32)):
            flat.index_add_(0, positions, values)
        flat.div_(len(payloads))


class CompiledTopK:
    def __init__(self, ratio: float = RATIO) -> None:
        self._compressor = compll.load("topk", ratio=ratio)
        self._states: dict[int, compll.State] = {}

    def encode(self, number: int, gradient: Tensor, step: int) -> Tensor:
        if number not in self._states:
            self._states[number] = self._compressor.init_state(gradient)
        key = compll.Key(step=step, gradient=number)
        return self._compressor.encode(gradient, self._states[number], key=key).buffer

    def decode_mean(self, number: int, payloads: Tensor, gradient: Tensor) -> None:
        for rank, buffer in enumerate(payloads):
            received = self._compressor.payload(buffer, like=gradient)
            self._compressor.decode(received, out=gradient, add=rank > 0)
        gradient.div_(len(payloads))


class Serial:
    """The state of `serial_hook`; matrices are compressed, the rest is averaged as it is."""

    def __init__(self, parameters: list[torch.nn.Parameter], codec: Codec) -> None:
        self.numbers = {id(parameter): number for number, parameter in enumerate(parameters)}
        self.codec = codec
        self.step = 0


def serial_hook(state: Serial, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """The mean over all ranks."""
    for parameter, gradient in zip(bucket.parameters(), bucket.gradients()):
        if gradient.dim() < 2:
            dist.all_reduce(gradient.div_(dist.get_world_size()))
            continue
        number = state.numbers[id(parameter)]
        mine = state.codec.encode(number, gradient, state.step)
        everyone = torch.empty(dist.get_world_size(), mine.numel(), dtype=torch.uint8)
        gather_into(everyone.view(-1), mine)
        state.codec.decode_mean(number, everyone, gradient)
    state.step += bucket.is_last()
    done: torch.futures.Future[torch.Tensor] = torch.futures.Future()
    done.set_result(bucket.buffer())
    return done
