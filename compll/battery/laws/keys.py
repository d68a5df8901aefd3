"""Random numbers come from the key and from nothing else."""

from __future__ import annotations

import random

import numpy as np
import torch

from compll.battery.inputs import FEW_SHAPES, heavy_tailed
from compll.battery.law import KEY, Subject, first_difference, need, same_bits


def determinism(subject: Subject) -> str:
    """Equal gradient, state and key: equal bytes and states, also into a buffer that held something else."""
    for shape in subject.accepted((*FEW_SHAPES, (65537,))):
        gradient = subject.on_device(heavy_tailed(shape))
        payload, state = subject.encode(gradient)
        buffer = torch.full_like(payload.buffer, 0xFF)
        other_state = subject.compressor.init_state(gradient, key=KEY)
        other = subject.compressor.encode(gradient, other_state, key=KEY, out=buffer)
        need(other.buffer.data_ptr() == buffer.data_ptr(), f"{shape}: `out` is not the payload's buffer")
        if not same_bits(payload.buffer, other.buffer):
            need(False, f"{shape}: bytes differ {first_difference(payload.buffer, other.buffer)}")
        for (name, one), (_, two) in zip(state.tensors(), other_state.tensors(), strict=True):
            need(same_bits(one, two), f"{shape}: {name} differs between two equal calls")
    return "equal bytes and states"


def generators(subject: Subject) -> str:
    """The global generators of torch, NumPy and Python are left alone."""
    before = (torch.get_rng_state(), str(np.random.get_state()), random.getstate())
    for shape in subject.accepted(FEW_SHAPES):
        gradient = torch.zeros(shape)
        payload, _ = subject.encode(gradient)
        subject.decoded(payload, gradient)
    after = (torch.get_rng_state(), str(np.random.get_state()), random.getstate())
    need(torch.equal(before[0], after[0]), "torch's global generator was used")
    need(before[1] == after[1], "NumPy's global generator was used")
    need(before[2] == after[2], "Python's global generator was used")
    return "untouched"
