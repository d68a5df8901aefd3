"""Measurements that tell what a compressor is: size, density, how much it loses, whether it is off on average."""

from __future__ import annotations

from typing import Any

import torch

from compll.battery.inputs import heavy_tailed, normal, numel
from compll.battery.law import Subject, refusal
from compll.battery.sampling import expectation, relative_error

LARGE = (256, 256)
SMALL = (32, 33)


def profile(subject: Subject) -> dict[str, Any]:
    """Measured on normal gradients from the initial state; an entry is missing where the program refuses the length.

    `density`: share of decoded elements that are not 0. `delta`: 1 - ||x - C(x)||^2 / ||x||^2 on a normal and on a
    heavy-tailed gradient, the smaller. `bias`: ||mean C(x) - x|| / ||x|| over 512 keys; `bias_noise`: what chance alone
    makes of it.
    """
    compressor = subject.compressor
    found: dict[str, Any] = {"traits": sorted(compressor.traits), "feedback": compressor.feedback}
    if refusal(compressor, LARGE) is None:
        gradient = normal(LARGE)
        payload, _ = subject.encode(gradient)
        decoded = subject.decoded(payload, gradient)
        zeros = subject.decoded(subject.encode(torch.zeros(LARGE))[0], gradient)
        found |= {
            "elements": numel(LARGE), "payload_bytes": payload.nbytes,
            "bits_per_element": 8 * payload.nbytes / numel(LARGE),
            "density": float((decoded != 0).double().mean()), "cut": payload.cut,
            "zero_preserving": bool((zeros == 0).all()),
        }  # fmt: skip
    if refusal(compressor, SMALL) is None:
        gradient = normal(SMALL)
        samples = expectation(subject, gradient)
        norm = float(gradient.double().norm())
        off = samples.mean(0) - gradient.double().reshape(-1)
        noise = (samples.var(0) / len(samples)).sum().sqrt()
        found |= {
            "delta": 1 - max(relative_error(subject, g) for g in (gradient, heavy_tailed(SMALL))),
            "bias": float(off.norm()) / norm,
            "bias_noise": float(noise) / norm,
        }  # fmt: skip
    return found
