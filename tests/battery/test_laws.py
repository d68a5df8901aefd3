"""Every law can fail: a compressor broken in one way breaks the law that speaks of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import compll
from compll.battery import LAWS, Subject
from compll.battery.run import ask

BACKEND = "reference"


class Broken:
    """Passes everything on to a good compressor; subclasses do one thing wrong."""

    program, params = "topk", {"ratio": 0.1}

    def __init__(self) -> None:
        self.good: Any = compll.load(self.program, backend=BACKEND, **self.params)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.good, name)


class WrongSize(Broken):
    def payload_bytes(self, shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> int:
        return self.good.payload_bytes(shape, dtype) + 4


class SizeOfData(Broken):
    def encode(self, grad: Tensor, state: Any = None, key: Any = None, out: Any = None) -> Any:
        payload = self.good.encode(grad, state, key=key, out=out)
        if float(grad.abs().sum()) == 0:
            object.__setattr__(payload, "buffer", payload.buffer[:-1])
        return payload


class OffByConstant(Broken):
    def decode(self, payload: Any, like: Any = None, out: Any = None, add: bool = False) -> Tensor:
        return self.good.decode(payload, like=like, out=out, add=add).add_(1e-6)


class Infinite(Broken):
    def decode(self, payload: Any, like: Any = None, out: Any = None, add: bool = False) -> Tensor:
        decoded = self.good.decode(payload, like=like, out=out, add=add)
        return decoded.div_((decoded.abs().amax() > 0).float()) if decoded.numel() else decoded


class AlwaysFinite(Broken):
    def encode(self, grad: Tensor, state: Any = None, key: Any = None, out: Any = None) -> Any:
        payload = self.good.encode(grad, state, key=key, out=out)
        payload.reports[0].fill_(True)
        return payload


class Forgetful(Broken):
    """Loses a thousandth of what it does not send."""

    def encode(self, grad: Tensor, state: Any = None, key: Any = None, out: Any = None) -> Any:
        payload = self.good.encode(grad, state, key=key, out=out)
        state.residual.mul_(0.999)
        return payload


class OneUlp(Broken):
    """Keeps what it has sent, too: four units in the last place of it."""

    program, params = "onebit", {}

    def encode(self, grad: Tensor, state: Any = None, key: Any = None, out: Any = None) -> Any:
        payload = self.good.encode(grad, state, key=key, out=out)
        state.residual.add_(grad.abs() * 2.0**-21)
        return payload


class Counting(Broken):
    """Draws by how often it was called."""

    program, params = "randomk", {"ratio": 0.1}
    calls = 0

    def encode(self, grad: Tensor, state: Any = None, key: Any = None, out: Any = None) -> Any:
        self.calls += 1
        return self.good.encode(grad, state, key=compll.Key(step=self.calls), out=out)


class Global(Broken):
    def encode(self, grad: Tensor, state: Any = None, key: Any = None, out: Any = None) -> Any:
        torch.rand(1)
        return self.good.encode(grad, state, key=key, out=out)


class OneBitOff(Broken):
    def encode(self, grad: Tensor, state: Any = None, key: Any = None, out: Any = None) -> Any:
        payload = self.good.encode(grad, state, key=key, out=out)
        if payload.nbytes:
            payload.buffer[-1] ^= 1
        return payload


class RoundsTwice(Broken):
    program, params = "onebit", {}

    def decode(self, payload: Any, like: Any = None, out: Any = None, add: bool = False) -> Tensor:
        decoded = self.good.decode(payload, like=like, out=out, add=add)
        return decoded.bfloat16().to(decoded.dtype) if decoded.dtype == torch.float16 else decoded


class MemoryOrder(Broken):
    def encode(self, grad: Tensor, state: Any = None, key: Any = None, out: Any = None) -> Any:
        flat = torch.as_strided(grad, (grad.numel(),), (1,)) if grad.is_contiguous() is False else grad.reshape(-1)
        return self.good.encode(flat.reshape(grad.shape), state, key=key, out=out)


class Overwrites(Broken):
    def decode(self, payload: Any, like: Any = None, out: Any = None, add: bool = False) -> Tensor:
        return self.good.decode(payload, like=like, out=out, add=False)


class AnyLength(Broken):
    def payload(self, buffer: Tensor, like: Tensor, key: Any = None) -> Any:
        return compll.Payload(buffer=buffer, shape=like.shape, dtype=like.dtype, key=key)


class Raises(Broken):
    def decode(self, payload: Any, like: Any = None, out: Any = None, add: bool = False) -> Tensor:
        if payload.nbytes and bool((payload.buffer == 0xFF).all()):
            raise IndexError("index 4294967295 is out of bounds")
        return self.good.decode(payload, like=like, out=out, add=add)


class LeavesLast(Broken):
    def decode(self, payload: Any, like: Any = None, out: Any = None, add: bool = False) -> Tensor:
        last = out.view(-1)[-1].clone() if out is not None and out.numel() > 1 else None
        decoded = self.good.decode(payload, like=like, out=out, add=add)
        if last is not None:
            decoded.view(-1)[-1] = last
        return decoded


class WritesBeside(Broken):
    def decode(self, payload: Any, like: Any = None, out: Any = None, add: bool = False) -> Tensor:
        decoded = self.good.decode(payload, like=like, out=out, add=add)
        beyond = decoded.storage_offset() + decoded.numel()
        if 4 * beyond < decoded.untyped_storage().nbytes():
            torch.as_strided(decoded, (1,), (1,), beyond).zero_()
        return decoded


class EncodesBeside(Broken):
    def encode(self, grad: Tensor, state: Any = None, key: Any = None, out: Any = None) -> Any:
        payload = self.good.encode(grad, state, key=key, out=out)
        if payload.buffer.storage_offset():
            torch.as_strided(payload.buffer, (1,), (1,), payload.buffer.storage_offset() - 1).zero_()
        return payload


class RoundsApart(Broken):
    """Ends every encoding in rounds with a word of its own, different on every rank."""

    program, params = "powersgd", {}

    def encode_rounds(self, grads: Any, states: Any, keys: Any) -> Any:
        rounds = self.good.encode_rounds(grads, states, keys)

        class Changed:
            payloads = rounds.payloads

            def __iter__(self) -> Any:
                yield from rounds
                self.payloads[0].buffer[0] = 17 + keys[0].rank

        return Changed()


CASES: list[tuple[type[Broken], str]] = [
    (WrongSize, "size"),
    (SizeOfData, "size"),
    (Infinite, "special_values"),
    (AlwaysFinite, "non_finite"),
    (Counting, "determinism"),
    (Global, "generators"),
    (OneBitOff, "agreement"),
    (RoundsTwice, "dtypes"),
    (MemoryOrder, "memory_format"),
    (Overwrites, "accumulation"),
    (AnyLength, "wrong_length"),
    (Raises, "hostile_bytes"),
    (LeavesLast, "hostile_bytes"),
    (WritesBeside, "hostile_bytes"),
    (EncodesBeside, "guard_zones"),
    (Forgetful, "feedback"),
    (OffByConstant, "feedback"),
    (OneUlp, "feedback"),
    (RoundsApart, "rounds"),
    (RoundsApart, "replicas"),
]


def law_named(name: str) -> Any:
    return next(law for law in LAWS if law.name == name)


@pytest.mark.parametrize(("broken", "name"), CASES, ids=lambda value: getattr(value, "__name__", value))
def test_broken_compressor_breaks_the_law(broken: Callable[[], Any], name: str) -> None:
    bad = broken()
    result = ask(law_named(name), Subject(compressor=bad, reference=bad.good, backend="broken"))
    assert not result.ok, result.detail
    good = ask(law_named(name), Subject(compressor=bad.good, reference=bad.good, backend="good"))
    assert good.ok, good.detail


def test_every_law_without_a_trait_has_a_case() -> None:
    broken = {name for _, name in CASES}
    topk = compll.load("topk", backend=BACKEND)
    assert {law.name for law in LAWS if law.applies(topk)} - broken <= {"round_trip"}
