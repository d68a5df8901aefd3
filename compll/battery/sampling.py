"""What a random compressor does on average, and how far one payload is from its gradient."""

from __future__ import annotations

import torch
from torch import Tensor

from compll.battery.law import Subject
from compll.runtime.key import Key

KEYS = 512
FEW_KEYS = 32


def expectation(subject: Subject, gradient: Tensor, keys: int = KEYS) -> Tensor:
    """[keys, n] f64: what the gradient decodes to under each of the first `keys` steps of one seed, each from the
    initial state."""
    gradient = subject.on_device(gradient)
    compressor = subject.compressor
    steps = [Key(seed=11, step=step, gradient=5) for step in range(keys)]
    states = [compressor.init_state(gradient, key=key) for key in steps]
    payloads = compressor.encode_batch([gradient] * keys, states, steps)
    outs = [torch.empty_like(gradient) for _ in steps]
    compressor.decode_batch([[payload] for payload in payloads], outs, mean=False)
    return torch.stack(outs).reshape(keys, -1).double().cpu()


def relative_error(subject: Subject, gradient: Tensor) -> float:
    """||x - C(x)||^2 / ||x||^2, the mean over some keys; 0 of a zero gradient that decodes to zeros."""
    decoded = expectation(subject, gradient, FEW_KEYS)
    flat = gradient.reshape(1, -1).double()
    error = float(((decoded - flat) ** 2).sum(1).mean())
    square = float((flat**2).sum())
    return error / square if square else (0.0 if error == 0 else float("inf"))
