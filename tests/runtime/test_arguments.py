"""Wrong types and values for public calls: refused with the argument's name, the need and what was found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import compll
from compll import CompllError, Key, Payload, State, SyncOptions

Call = Callable[[Any], Any]

GRAD = torch.linspace(-1, 1, 64).view(8, 8)
TOPK = compll.load("topk", backend="cpu", ratio=0.25)
DGC = compll.load("dgc", backend="cpu")
STATE, DGC_STATE = TOPK.init_state(GRAD), DGC.init_state(GRAD)
PAYLOAD = TOPK.encode(GRAD)
OUT = torch.zeros(8, 8)


def a_payload(**changed: Any) -> Payload:
    parts = {"buffer": PAYLOAD.buffer, "shape": GRAD.shape, "dtype": GRAD.dtype, "key": Key()}
    return Payload(**{**parts, **changed})


#: What is called with an argument of any kind, the name that a refusal must say, and whether None is fine there.
CALLS: dict[str, tuple[Call, str, bool]] = {
    "load": (lambda x: compll.load(x), "program|compressor", False),
    "load backend": (lambda x: compll.load("topk", backend=x), "backend", False),
    "load ratio": (lambda x: compll.load("topk", ratio=x), "ratio", False),
    "with_params": (lambda x: TOPK.with_params(ratio=x), "ratio", False),
    "with_feedback": (lambda x: TOPK.with_feedback(x), "feedback", False),
    "payload_bytes": (lambda x: TOPK.payload_bytes(x), "shape", False),
    "payload_bytes dtype": (lambda x: TOPK.payload_bytes((8, 8), x), "dtype", False),
    "sections": (lambda x: TOPK.sections((8, x)), "shape", False),
    "compile": (lambda x: TOPK.compile(x), "grad", False),
    "round_sizes": (lambda x: TOPK.round_sizes(x), "grad", False),
    "init_state": (lambda x: TOPK.init_state(x), "grad", False),
    "init_state key": (lambda x: TOPK.init_state(GRAD, x), "key", True),
    "encode": (lambda x: TOPK.encode(x), "grad", False),
    "encode state": (lambda x: TOPK.encode(GRAD, x), "state", True),
    "encode key": (lambda x: TOPK.encode(GRAD, key=x), "key", True),
    "encode out": (lambda x: TOPK.encode(GRAD, out=x), "payload of `topk`", True),
    "payload": (lambda x: TOPK.payload(x, GRAD), "buffer|payload of", False),
    "payload like": (lambda x: TOPK.payload(PAYLOAD.buffer, x), "like", False),
    "payload key": (lambda x: TOPK.payload(PAYLOAD.buffer, GRAD, x), "key", True),
    "decode": (lambda x: TOPK.decode(x), "payload", False),
    "decode buffer": (lambda x: TOPK.decode(a_payload(buffer=x)), "payload", False),
    "decode shape": (lambda x: TOPK.decode(a_payload(shape=x)), "shape|payload of", False),
    "decode dtype": (lambda x: TOPK.decode(a_payload(dtype=x)), "dtype", False),
    "decode payload key": (lambda x: TOPK.decode(a_payload(key=x)), "key", False),
    "decode like": (lambda x: TOPK.decode(PAYLOAD, like=x), "like|out", True),
    "decode out": (lambda x: TOPK.decode(PAYLOAD, out=x), "out", True),
    "decode add": (lambda x: TOPK.decode(PAYLOAD, out=OUT, add=x), "add", False),
    "encode_batch": (lambda x: TOPK.encode_batch(x, [STATE], [Key()]), "grad", False),
    "encode_batch grad": (lambda x: TOPK.encode_batch([x], [STATE], [Key()]), "grad", False),
    "encode_batch states": (lambda x: TOPK.encode_batch([GRAD], x, [Key()]), "states", False),
    "encode_batch state": (lambda x: TOPK.encode_batch([GRAD], [x], [Key()]), "state", False),
    "encode_batch keys": (lambda x: TOPK.encode_batch([GRAD], [STATE], x), "keys", False),
    "encode_batch key": (lambda x: TOPK.encode_batch([GRAD], [STATE], [x]), "key", False),
    "encode_batch outs": (lambda x: TOPK.encode_batch([GRAD], [STATE], [Key()], x), "outs", True),
    "encode_batch threads": (lambda x: TOPK.encode_batch([GRAD], [STATE], [Key()], threads=x), "threads", True),
    "decode_batch": (lambda x: TOPK.decode_batch(x, [OUT]), "payloads", False),
    "decode_batch row": (lambda x: TOPK.decode_batch([x], [OUT]), "row", False),
    "decode_batch payload": (lambda x: TOPK.decode_batch([[x]], [OUT]), "payload", True),
    "decode_batch outs": (lambda x: TOPK.decode_batch([[PAYLOAD]], x), "outs", False),
    "decode_batch out": (lambda x: TOPK.decode_batch([[PAYLOAD]], [x]), "out", False),
    "State residual": (lambda x: TOPK.encode(GRAD, State(residual=x, states={})), "residual", False),
    "State states": (lambda x: DGC.encode(GRAD, State(residual=None, states=x)), "state", False),
    "State of nothing": (lambda x: DGC.encode(GRAD, State(residual=None, states=dict.fromkeys(DGC_STATE.states, x))),
                         "state", False),
    "load_state_dict": (lambda x: STATE.load_state_dict(x), "state", False),
    "copy_from": (lambda x: STATE.copy_from(x), "compll.State", False),
    "Key": (lambda x: Key(seed=x), "seed", False),
    "strategy": (lambda x: SyncOptions(strategy=x), "strategy", False),
    "plan": (lambda x: SyncOptions(plan=x), "plan", False),
    "start_step": (lambda x: SyncOptions(start_step=x), "start_step", False),
    "node_size": (lambda x: SyncOptions(node_size=x), "node_size", True),
    "debug": (lambda x: SyncOptions(debug=x), "debug", False),
    "seed": (lambda x: SyncOptions(seed=x), "seed", False),
    "attach": (lambda x: compll.attach(x, "topk"), "SyncState", False),
    "sync_hook": (lambda x: compll.sync_hook(x, x), "sync_hook", False),
}  # fmt: skip

WRONG = [None, -1, 1.5j, float("nan"), b"\0", object(), {"x": 1}]


@pytest.mark.parametrize("name", CALLS)
def test_arguments_of_other_kinds(name: str) -> None:
    call, says, takes_none = CALLS[name]
    for wrong in WRONG[takes_none:]:
        with pytest.raises(CompllError, match=says):
            call(wrong)


def test_sequences_of_another_length() -> None:
    with pytest.raises(CompllError, match="encode: `states` needs as many as `grads`, 2, got 1"):
        TOPK.encode_batch([GRAD, GRAD], [STATE], [Key(), Key()])
    with pytest.raises(CompllError, match="decode: `payloads` needs as many as `outs`, 1, got 2"):
        TOPK.decode_batch([[PAYLOAD], [PAYLOAD]], [OUT])


def test_what_is_decoded_into_has_the_shape_of_what_is_decoded() -> None:
    """Kernels get an address: a shorter tensor would be written beyond its end."""
    with pytest.raises(CompllError, match=r"`out` needs shape \(8, 8\), got \(3,\)"):
        TOPK.decode_batch([[PAYLOAD]], [torch.zeros(3)])


def test_a_tensor_that_is_no_gradient() -> None:
    for call in (TOPK.encode, TOPK.init_state, TOPK.compile):
        with pytest.raises(CompllError, match="needs a gradient of torch.float32, torch.float16, .* got torch.int32"):
            call(torch.ones(3, dtype=torch.int32))


def test_a_seed_is_one_word() -> None:
    with pytest.raises(CompllError, match="option `seed` needs a whole number below 4294967296, got 4294967296"):
        SyncOptions(seed=1 << 32)


def test_no_file_has_a_zero_in_its_name() -> None:
    with pytest.raises(CompllError, match="no file can be called"):
        compll.load("a\0b.cll")
