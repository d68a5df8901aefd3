"""The envelope's layout and flags."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from compll.runtime.envelope import (
    ABSENT,
    ALIGNMENT,
    FINITE,
    HAS_GRADIENT,
    SOUND,
    WHOLE,
    Envelope,
    joined,
    where_finite,
)


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


@given(st.lists(st.tuples(st.integers(0, WHOLE), st.sampled_from([None, True, False])), max_size=9))
def test_what_is_not_finite_loses_only_that(given_flags: list[tuple[int, bool | None]]) -> None:
    """`None`: nobody asks."""
    flags = [flag for flag, _ in given_flags]
    asked = {i: torch.tensor([finite]) for i, (_, finite) in enumerate(given_flags) if finite is not None}
    found = where_finite(flags, asked, torch.device("cpu"))
    expected = [flag & ~FINITE if finite is False else flag for flag, finite in given_flags]
    assert found.dtype == torch.uint8 and found.tolist() == expected


def test_flags_of_several_at_once() -> None:
    envelope = Envelope((3, 0, 20))
    messages = torch.zeros(2, envelope.nbytes, dtype=torch.uint8)
    envelope.write_flags(messages[0], [WHOLE, ABSENT, 0])
    envelope.write_flags(messages[1], torch.tensor([ABSENT, WHOLE, WHOLE], dtype=torch.uint8))
    assert envelope.read_all_flags(list(messages)) == [[WHOLE, ABSENT, 0], [ABSENT, WHOLE, WHOLE]]
    assert Envelope(()).read_all_flags([messages[0], messages[1]]) == [[], []]
