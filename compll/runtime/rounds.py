"""Encoding in rounds: what a runtime with a network does with programs that call `all_reduce_mean`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from compll.runtime.payload import Payload


class Rounds(Iterator[list[torch.Tensor]]):
    """An encoding on its way, made by `Compressor.encode_rounds`. Nothing has run before the first step.

        rounds = compressor.encode_rounds(grads, states, keys, outs)
        for tensors in rounds:
            ...  # every tensor becomes, in place, the mean over all ranks
        rounds.payloads

    Each step computes up to the next `all_reduce_mean` of every gradient and yields, for the gradients that have one
    left, in their order, a contiguous 1-D f32 tensor that holds this rank's value. All gradients of a program have
    equally many; one without elements takes no part. What is yielded is valid until the next step, which goes on from
    what it holds then. Left as it is, it makes the bytes that `encode` makes.

    Between steps the gradients, states and outs must stay as they are, and a state must take part in no other
    encoding. States and payloads are complete when the iterator is exhausted; given up earlier they are good for
    nothing. Steps may run on different threads, one at a time; on a GPU they belong on one stream.
    """

    def __init__(self, payloads: Sequence[Payload], steps: Iterator[list[torch.Tensor]]) -> None:
        self.payloads = list(payloads)
        self._steps = steps

    def __next__(self) -> list[torch.Tensor]:
        return next(self._steps)


def in_step(running: Sequence[tuple[Sequence[int], Iterator[list[torch.Tensor]]]]) -> Iterator[list[torch.Tensor]]:
    """Several encodings as one: each has the positions of its gradients, and yields a tensor for each of them."""
    while True:
        found: dict[int, torch.Tensor] = {}
        for positions, steps in running:
            found.update(zip(positions, next(steps, [])))
        if not found:
            return
        yield [found[position] for position in sorted(found)]
