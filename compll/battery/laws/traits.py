"""Declared traits, each tested by what it promises."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from compll.battery.inputs import FEW_SHAPES, Shape, finite_gradients, heavy_tailed, normal
from compll.battery.law import KEY, Subject, Violation, first_difference, need, same_bits
from compll.battery.laws.feedback import ulp
from compll.battery.sampling import expectation, relative_error
from compll.runtime.key import Key

UNBIASED_LENGTHS = (17, 1025)
SIGMAS = 5.0
ROUNDING = 2.0**-20
MOMENTUM_STEPS = 24


def linear(subject: Subject) -> str:
    """The typed sum of two ranks' payloads decodes to the sum of what they decode to."""
    for shape in subject.accepted((*FEW_SHAPES, (65537,))):
        gradient = subject.on_device(normal(shape))
        keys = [Key(seed=1, step=2, gradient=3, rank=rank) for rank in range(2)]
        payloads = [subject.encode(heavy_tailed(shape, seed=key.rank), key=key)[0] for key in keys]
        one, two = (subject.decoded(payload, gradient) for payload in payloads)
        buffer = _typed_sum(subject, shape, *(p.buffer for p in payloads))
        total = subject.decoded(subject.compressor.payload(buffer, like=gradient, key=KEY), gradient)
        error = (total - (one + two)).abs() / ulp(one.abs() + two.abs())
        largest = float(error.max()) if error.numel() else 0.0
        need(largest <= 4, f"{shape}: the sum of payloads decodes {largest:.3g} ulp beside the sum of gradients")
    return "sum of payloads decodes to the sum"


def _typed_sum(subject: Subject, shape: Shape, left: Tensor, right: Tensor) -> Tensor:
    total = torch.zeros_like(left)
    for section in subject.compressor.sections(shape, torch.float32):
        if section.dtype is None or not section.dtype.is_floating_point:
            raise Violation(f"section `{section.name}` of a linear payload needs a float type of its own bytes")
        part = slice(section.offset, section.offset + section.nbytes)
        total[part] = (left[part].view(section.dtype) + right[part].view(section.dtype)).view(torch.uint8)
    return total


def shared_seed(subject: Subject) -> str:
    """Ranks draw alike: equal gradients give equal bytes on every rank, and any rank's key decodes them."""
    for shape in subject.accepted(FEW_SHAPES):
        gradient = subject.on_device(normal(shape))
        keys = [Key(seed=1, step=2, gradient=3, rank=rank) for rank in (0, 1, 5)]
        buffers = [subject.encode(gradient, key=key)[0].buffer for key in keys]
        for key, buffer in zip(keys, buffers, strict=True):
            if not same_bits(buffer, buffers[0]):
                need(False, f"{shape}: rank {key.rank} differs from rank 0 {first_difference(buffer, buffers[0])}")
        received = [subject.compressor.payload(buffers[0], like=gradient, key=key) for key in keys]
        outs = [subject.decoded(payload, gradient) for payload in received]
        need(all(same_bits(out, outs[0]) for out in outs), f"{shape}: the bytes decode differently by rank")
    return "equal on every rank"


def unbiased(subject: Subject) -> str:
    """The mean over 512 keys lies within 5 sample sigma of the gradient, seen along ten directions."""
    worst = 0.0
    for (n,) in subject.accepted((n,) for n in UNBIASED_LENGTHS):
        gradient = normal((n,), seed=n)
        samples = expectation(subject, gradient)
        directions = torch.randint(0, 2, (8, n), generator=torch.Generator().manual_seed(n)).double() * 2 - 1
        directions = torch.cat([directions, gradient.double()[None], gradient.double().sign()[None]])
        seen, true = samples @ directions.T, directions @ gradient.double()
        sigma = seen.std(0) / math.sqrt(len(samples))
        allowed = SIGMAS * sigma + ROUNDING * (directions * gradient.double()).abs().sum(1)
        off = (seen.mean(0) - true).abs()
        worst = max(worst, float((off / allowed).max()))
        place = int((off / allowed).argmax())
        found = f"the mean is off by {off[place]:.3g}, allowed {allowed[place]:.3g}"
        need(worst <= 1, f"n = {n}, direction {place}: {found}")
    return f"at most {worst:.0%} of the allowed deviation"


def contraction(subject: Subject) -> str:
    """||x - C(x)||^2 <= (1 - delta) ||x||^2 with delta > 0 for typical gradients, and never above ||x||^2."""
    smallest = 1.0
    for shape in subject.accepted(FEW_SHAPES):
        for name, gradient in finite_gradients(shape):
            error = relative_error(subject, gradient)
            need(error <= 1 + ROUNDING, f"{name} {shape}: ||x - C(x)||^2 is {error:.4g} ||x||^2")
            if name in ("normal", "heavy-tailed"):
                smallest = min(smallest, 1 - error)
                need(error < 1, f"{name} {shape}: delta needs to be positive, got {1 - error:.3g}")
    return f"delta = {smallest:.3g}"


def zero_preserving(subject: Subject) -> str:
    """Zeros decode to zeros."""
    for shape in subject.accepted((*FEW_SHAPES, (65537,))):
        out = subject.decoded(subject.encode(torch.zeros(shape))[0], torch.zeros(shape))
        if out.numel():
            need(bool((out == 0).all()), f"{shape}: zeros decode to {float(out.abs().max()):.3g}")
    return "zeros decode to zeros"


def momentum(subject: Subject) -> str:
    """Of a constant gradient, what waits is sent as more than its sum, or more is sent in all than came in."""
    for shape in subject.accepted([(1025,)]):
        gradient, state = normal(shape), None
        total, seen, largest = torch.zeros(shape), torch.zeros(shape, dtype=torch.bool), 0.0
        for step in range(MOMENTUM_STEPS):
            payload, state = subject.encode(gradient, state, key=Key(seed=1, step=step))
            out = subject.decoded(payload, gradient)
            first = (out != 0) & ~seen
            if step == 0 and bool(first.all()):
                return "cannot be seen: every element is sent at once"
            if bool(first.any()):
                largest = max(largest, float((out / ((step + 1) * gradient))[first].max()))
            total, seen = total + out, seen | first
        sent = float(total @ gradient / (gradient @ gradient)) / MOMENTUM_STEPS
        need(max(largest, sent) > 1.01, "a constant gradient is never sent as more than its sum: no velocity gathers")
    return "velocity gathers"
