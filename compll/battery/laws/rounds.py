"""A collective inside encode: left alone it changes nothing; with other ranks it makes their results one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from compll.battery.inputs import FEW_SHAPES, heavy_tailed
from compll.battery.law import KEY, Subject, first_difference, need, same_bits
from compll.runtime.rounds import Rounds
from compll.runtime.state import State

WORLD = 3
STEPS = 2


def rounds(subject: Subject) -> str:
    """Encoding in rounds whose tensors nobody changes gives the bytes and states of encode."""
    for shape in subject.accepted(FEW_SHAPES):
        gradient = subject.on_device(heavy_tailed(shape))
        payload, state = subject.encode(gradient)
        other = subject.compressor.init_state(gradient, key=KEY)
        running = subject.compressor.encode_rounds([gradient], [other], [KEY])
        for _ in running:
            pass
        found = running.payloads[0].buffer
        if not same_bits(payload.buffer, found):
            need(False, f"{shape}: bytes differ {first_difference(payload.buffer, found)}")
        for (name, one), (_, two) in zip(state.tensors(), other.tensors(), strict=True):
            need(same_bits(one, two), f"{shape}: {name} differs between rounds and encode")
    return "equal bytes and states"


def replicas(subject: Subject) -> str:
    """Ranks with gradients of their own, whose rounds are averaged, all end with the same result."""
    for shape in subject.accepted(FEW_SHAPES):
        like = torch.zeros(shape, device=subject.device)
        states = [subject.compressor.init_state(like, key=KEY) for _ in range(WORLD)]
        for step in range(STEPS):
            first, *others = [running.payloads[0].buffer for running in _step(subject, shape, states, step)]
            for rank, other in enumerate(others, 1):
                if not same_bits(first, other):
                    place = first_difference(first.view(torch.float32), other.view(torch.float32))
                    need(False, f"{shape}, step {step}: the results of ranks 0 and {rank} differ {place}")
    return f"one result on {WORLD} ranks"


def _step(subject: Subject, shape: Sequence[int], states: Sequence[State], step: int) -> list[Rounds]:
    running = [
        subject.compressor.encode_rounds(
            [subject.on_device(heavy_tailed(shape, 100 * step + rank))], [state], [replace(KEY, step=step, rank=rank)]
        )
        for rank, state in enumerate(states)
    ]
    for tensors in zip(*running, strict=True):
        mean = torch.stack([own for (own,) in tensors]).mean(dim=0)
        for (own,) in tensors:
            own.copy_(mean)
    return running
