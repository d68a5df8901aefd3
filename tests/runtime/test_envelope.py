"""The envelope's layout and flags."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from compll.runtime.envelope import ABSENT, ALIGNMENT, FINITE, HAS_GRADIENT, SOUND, WHOLE, Envelope, joined


@given(st.lists(st.integers(0, 100), min_size=1, max_size=40))
def test_parts_are_aligned_and_disjoint(sizes: list[int]) -> None:
    envelope = Envelope(tuple(sizes))
    buffer = torch.zeros(envelope.nbytes, dtype=torch.uint8)
    envelope.write_flags(buffer, [HAS_GRADIENT | FINITE] * len(sizes))
    for offset, payload, size in zip(envelope.offsets, envelope.payloads(buffer), sizes):
        assert offset % ALIGNMENT == 0 and payload.numel() == size
        assert not payload.any()
        payload.fill_(9)
    assert envelope.read_flags(buffer) == [HAS_GRADIENT | FINITE] * len(sizes)
    assert int(buffer.eq(9).sum()) == sum(sizes)


def test_flags_of_a_sum() -> None:
    assert joined([WHOLE, ABSENT]) == WHOLE
    assert joined([ABSENT, ABSENT]) == ABSENT
    assert joined([WHOLE, HAS_GRADIENT | SOUND]) == HAS_GRADIENT | SOUND
    assert not joined([WHOLE, 0]) & SOUND, "memory that nobody wrote says that something failed"
