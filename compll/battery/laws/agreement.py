"""Backends agree: bit for bit where the program is exact, within a stated bound where a matrix product is in it."""

from __future__ import annotations

from torch import Tensor

from compll.battery.inputs import FEW_SHAPES, SHAPES, Shape, finite_gradients, heavy_tailed, non_finite_gradients, numel
from compll.battery.law import KEY, Subject, first_difference, need, same_bits
from compll.codegen import ir
from compll.runtime.compressor import Compressor
from compll.runtime.key import Key

STEPS = 3

#: For programs with matrix products: of the largest decoded magnitude.
BOUND = 2.0**-10


def agreement(subject: Subject) -> str:
    """Payloads, residual and states equal those of the reference backend over several steps."""
    shapes = list(subject.accepted(SHAPES))
    exact = all(is_exact(subject.compressor, shape) for shape in shapes)
    for shape in shapes:
        _compare(subject, [heavy_tailed(shape, seed) for seed in range(STEPS)], f"{shape}", exact)
    for shape in subject.accepted(FEW_SHAPES) if exact else ():
        for name, gradient in (*finite_gradients(shape), *(non_finite_gradients(shape) if numel(shape) else ())):
            _compare(subject, [gradient] * 2, f"{name} {shape}", exact)
    return "bit for bit" if exact else f"within {BOUND:.3g} of the largest element"


def is_exact(compressor: Compressor, shape: Shape) -> bool:
    """Whether every operation of the program gives the same bits on every backend."""
    program = compressor.sized(shape).compilation.program
    operations = (o for f in program.functions for o in ir.with_inner(f.operations))
    return not any(isinstance(o, (ir.MatMul, ir.Orthonormalize)) for o in operations)


def _compare(subject: Subject, gradients: list[Tensor], place: str, exact: bool) -> None:
    state = subject.compressor.init_state(subject.on_device(gradients[0]), key=KEY)
    expected_state = subject.reference.init_state(gradients[0], key=KEY)
    for step, gradient in enumerate(gradients):
        key = Key(seed=KEY.seed, step=step, gradient=KEY.gradient, rank=1)
        payload, state = subject.encode(gradient, state, key=key)
        expected = subject.reference.encode(gradient, expected_state, key=key)
        pairs = [("decoded", subject.decoded(payload, gradient), subject.reference.decode(expected, like=gradient))]
        if exact:
            pairs = [("payload", payload.buffer, expected.buffer), *pairs]
            both = zip(state.tensors(), expected_state.tensors(), strict=True)
            pairs += [(name, mine, theirs) for (name, mine), (_, theirs) in both]
            need(payload.finite == expected.finite, f"{place}, step {step}: `finite` differs from the reference")
            need(payload.cut == expected.cut, f"{place}, step {step}: `cut` is {payload.cut}, reference {expected.cut}")
        for name, found, wanted in pairs:
            _need_equal(found.cpu(), wanted, f"{place}, step {step}: {name}", exact)


def _need_equal(found: Tensor, wanted: Tensor, place: str, exact: bool) -> None:
    if exact:
        if not same_bits(found, wanted):
            need(False, f"{place} differs from the reference {first_difference(found, wanted)}")
    elif wanted.numel():
        off, allowed = float((found - wanted).abs().max()), BOUND * float(wanted.abs().max())
        need(off <= allowed, f"{place} is {off:.3g} off the reference, allowed {allowed:.3g}")
