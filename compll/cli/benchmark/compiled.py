"""A compiled compressor as training runs it: one batch of all gradients, states that live on, buffers made once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter

import torch

import compll
from compll.cli.benchmark.workload import Workload
from compll.runtime.payload import Payload
from compll.runtime.state import State

#: With feedback a residual takes about 1 / density steps until it is as in training; not longer than this.
WARM_STEPS = 100
WARM_SECONDS = 10.0


@dataclass(slots=True)
class Compiled:
    """Everything that encode and decode of a workload touch; `payloads` are those of the last step."""

    compressor: compll.Compressor
    workload: Workload
    states: Sequence[State]
    buffers: Sequence[torch.Tensor]
    outs: Sequence[torch.Tensor]
    payloads: Sequence[Payload] = ()

    def encode(self, step: int) -> None:
        grads = self.workload.gradients(step)
        keys = [compll.Key(step=step, gradient=position) for position in range(len(grads))]
        self.payloads = self.compressor.encode_batch(grads, self.states, keys, self.buffers)

    def decode(self, step: int) -> None:
        self._decode(add=False)

    def decode_add(self, step: int) -> None:
        self._decode(add=True)

    def _decode(self, *, add: bool) -> None:
        self.compressor.decode_batch([[payload] for payload in self.payloads], self.outs, add=add)

    def warm(self) -> int:
        """Run everything until states are as in training; returns the number of steps."""
        start = perf_counter()
        for step in range(WARM_STEPS):
            self.encode(step)
            if step == 0:
                self.decode(step)
                self.decode_add(step)
            if perf_counter() - start > WARM_SECONDS:
                break
        return step + 1

    @property
    def payload_bytes(self) -> int:
        return sum(buffer.numel() for buffer in self.buffers)


def compiled(compressor: compll.Compressor, workload: Workload) -> Compiled:
    """Before the first step."""
    grads, device = workload.gradients(0), workload.device
    keys = [compll.Key(gradient=position) for position in range(len(grads))]
    sizes = [compressor.payload_bytes(grad.shape) for grad in grads]
    return Compiled(
        compressor=compressor,
        workload=workload,
        states=[compressor.init_state(grad, key) for grad, key in zip(grads, keys, strict=True)],
        buffers=[torch.zeros(size, dtype=torch.uint8, device=device) for size in sizes],
        outs=[torch.zeros_like(grad) for grad in grads],
    )
