"""Gradients with everything awkward in them, and the comparison of two backends step by step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

import compll

VECTORS = (1, 2, 31, 32, 33, 63, 64, 65, 1023, 1024, 1025, 4095, 4096, 4097, 65537)
MATRICES = ((1, 5000), (300, 1), (63, 65), (5, 4097), (2, 40000))
KINDS = ("normal", "ties", "constant", "zeros", "onehot", "extreme", "awkward")
AWKWARD = (0.0, -0.0, 1.0, -1.0, 1e-40, -1e-45, 1e30, -1e30, np.inf, -np.inf, np.nan, 3.4e38)


def gradient(shape: int | tuple[int, ...], kind: str, seed: int = 0) -> torch.Tensor:
    """An f32 gradient of a kind of KINDS."""
    rng = np.random.default_rng([seed, KINDS.index(kind)])
    x = rng.standard_normal(shape).astype(np.float32)
    match kind:
        case "ties":
            x = np.round(x * 2) / np.float32(2)
        case "constant":
            x = np.full_like(x, -0.75)
        case "zeros":
            x = np.where(x > 0, np.float32(0.0), np.float32(-0.0))
        case "onehot":
            x = np.where(np.arange(x.size).reshape(x.shape) == x.size // 3, np.float32(3.0), np.float32(0.0))
        case "extreme":
            x = x * np.where(rng.random(x.shape) < 0.5, np.float32(1e30), np.float32(1e-40))
        case "awkward":
            x = np.where(rng.random(x.shape) < 0.5, rng.choice(np.array(AWKWARD, np.float32), x.shape), x)
    return torch.from_numpy(x.astype(np.float32))


@dataclass
class Run:
    """One compressor on one backend, fed gradient after gradient."""

    compressor: compll.Compressor
    threads: int = 1

    def steps(self, gradients: list[torch.Tensor], seed: int = 5) -> list[dict[str, torch.Tensor]]:
        """Everything that leaves the compressor in each step, by name."""
        before = torch.get_num_threads()
        torch.set_num_threads(self.threads)
        try:
            state = self.compressor.init_state(gradients[0], key=compll.Key(seed=seed, gradient=7, rank=1))
            return [self._step(g, state, compll.Key(seed=seed, step=i, gradient=7, rank=1))
                    for i, g in enumerate(gradients)]  # fmt: skip
        finally:
            torch.set_num_threads(before)

    def _step(self, g: torch.Tensor, state: object, key: compll.Key) -> dict[str, torch.Tensor]:
        payload = self.compressor.encode(g, state, key=key)
        decoded = self.compressor.decode(payload)
        total = self.compressor.decode(payload, out=torch.full_like(g, 0.125), add=True)
        seen = {"payload": payload.buffer, "decoded": decoded, "added": total}
        seen |= {f"state {name}": s.clone() for name, s in state.states.items()}
        if state.residual is not None:
            seen["residual"] = state.residual.clone()
        return seen


def bits(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor's bytes."""
    return tensor.contiguous().view(-1).view(torch.uint8)


def differences(left: list[dict[str, torch.Tensor]], right: list[dict[str, torch.Tensor]]) -> list[str]:
    """What is not bit-equal, as lines; empty where all is."""
    found = []
    for step, (a, b) in enumerate(zip(left, right, strict=True)):
        for name in a:
            if not torch.equal(bits(a[name]), bits(b[name])):
                count = int((bits(a[name]) != bits(b[name])).sum())
                found.append(f"step {step}: {name}: {count} of {bits(a[name]).numel()} bytes differ")
    return found
