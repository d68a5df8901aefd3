"""Bytes that no encoder made: refused when the length is wrong, otherwise decoded within the bounds of `out`."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from compll.battery.inputs import FEW_SHAPES, Shape, normal, numel
from compll.battery.law import KEY, Subject, bits, need
from compll.diagnostics import CompllError

SHAPES: tuple[Shape, ...] = (*FEW_SHAPES, (257, 130))
GUARD = 256  # bytes on either side, a multiple of every alignment
GUARD_BYTE = 0xA5
FLIPS = 24
RANDOM_PAYLOADS = 6


def wrong_length(subject: Subject) -> str:
    """A payload that is too short, too long or not made of bytes is refused with a message."""
    for shape in subject.accepted(FEW_SHAPES):
        gradient = subject.on_device(normal(shape))
        buffer = subject.encode(gradient)[0].buffer
        longer = torch.cat([buffer, buffer.new_zeros(1)])
        words = buffer.new_zeros(buffer.numel(), dtype=torch.int32)
        for name, wrong in (("one byte less", buffer[:-1]), ("one byte more", longer), ("i32 instead of u8", words)):
            try:
                subject.compressor.payload(wrong, like=gradient, key=KEY)
            except CompllError:
                continue
            need(False, f"{shape}: {name} needs to be refused, was accepted")
    return "refused"


def hostile_bytes(subject: Subject) -> str:
    """Any bytes of the right length decode without an error; every element of `out` is written, none beside it."""
    tried = 0
    for shape in subject.accepted(SHAPES):
        for name, content in _contents(subject, shape):
            place = f"{name} {shape}"
            outs = [_decode_guarded(subject, content, shape, fill, place) for fill in (0x11, 0x22)]
            untouched = torch.ones(numel(shape), dtype=torch.bool)
            for out, fill in zip(outs, (0x11, 0x22), strict=True):
                untouched &= (bits(out).view(-1, 4) == fill).all(1)
            need(not bool(untouched.any()), f"{place}: elements of `out` are not written")
            tried += 1
    return f"{tried} payloads"


def guard_zones(subject: Subject) -> str:
    """Encoding writes nothing beside the payload; what lies beside a payload does not change what it decodes to."""
    for shape in subject.accepted(SHAPES):
        gradient = subject.on_device(normal(shape))
        plain = subject.encode(gradient)[0].buffer
        area, buffer = _guarded(subject, plain.numel(), 0)
        state = subject.compressor.init_state(gradient, key=KEY)
        subject.compressor.encode(gradient, state, key=KEY, out=buffer)
        need(_intact(area, plain.numel()), f"{shape}: encode wrote beside its payload")
        need(torch.equal(buffer, plain), f"{shape}: encode into `out` gives other bytes")
        decoded = []
        for guard in (0x00, 0xFF):
            area[:GUARD], area[GUARD + plain.numel() :] = guard, guard
            payload = subject.compressor.payload(buffer, like=gradient, key=KEY)
            decoded.append(subject.decoded(payload, gradient))
        need(torch.equal(*decoded), f"{shape}: decode reads beside its payload")
    return "intact"


def _contents(subject: Subject, shape: Shape) -> Iterator[tuple[str, Tensor]]:
    gradient = normal(shape)
    valid = subject.encode(gradient)[0].buffer.cpu()
    generator = torch.Generator().manual_seed(numel(shape))
    yield "all zero bytes", torch.zeros_like(valid)
    yield "all 0xff", torch.full_like(valid, 0xFF)
    yield "all 0x80", torch.full_like(valid, 0x80)
    for i in range(RANDOM_PAYLOADS):
        yield f"random bytes {i}", torch.randint(256, valid.shape, dtype=torch.uint8, generator=generator)
    for _ in range(min(FLIPS, 8 * valid.numel())):
        bit = int(torch.randint(8 * valid.numel(), (), generator=generator))
        flipped = valid.clone()
        flipped[bit // 8] ^= 1 << (bit % 8)
        yield f"bit {bit} flipped", flipped


def _decode_guarded(subject: Subject, content: Tensor, shape: Shape, fill: int, place: str) -> Tensor:
    """Decode bytes that lie between guards into a tensor between guards that holds `fill` before."""
    bytes_area, buffer = _guarded(subject, content.numel(), 0)
    buffer.copy_(content)
    out_area, out_bytes = _guarded(subject, 4 * numel(shape), fill)
    out = out_bytes.view(torch.float32).view(shape)
    payload = subject.compressor.payload(buffer, like=out, key=KEY)
    subject.compressor.decode(payload, like=out, out=out)
    need(_intact(out_area, out_bytes.numel()), f"{place}: decode wrote beside `out`")
    need(torch.equal(buffer.cpu(), content), f"{place}: decode changed the payload")
    need(_intact(bytes_area, content.numel()), f"{place}: decode wrote beside the payload")
    return out.cpu()


def _guarded(subject: Subject, nbytes: int, fill: int) -> tuple[Tensor, Tensor]:
    """Memory with guards around `nbytes` bytes of `fill`, and the view of the bytes between."""
    area = torch.full((GUARD + nbytes + GUARD,), GUARD_BYTE, dtype=torch.uint8, device=subject.device)
    middle = area[GUARD : GUARD + nbytes]
    middle.fill_(fill)
    return area, middle


def _intact(area: Tensor, nbytes: int) -> bool:
    return bool((area[:GUARD] == GUARD_BYTE).all() and (area[GUARD + nbytes :] == GUARD_BYTE).all())
