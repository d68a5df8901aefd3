"""The oracle's own words."""

from __future__ import annotations

import philox_words as words

import compll


def test_philox_gives_the_published_words() -> None:
    """Random123's known answers for Philox4x32-10."""
    zero = words.philox([0] * 4, [0] * 2)
    ones = words.philox([0xFFFFFFFF] * 4, [0xFFFFFFFF] * 2)
    assert [f"{word:08x}" for word in zero] == ["6627e8d5", "e169c58d", "bc57ac4c", "9b00dbd8"]
    assert [f"{word:08x}" for word in ones] == ["408f276d", "41c83b0e", "a20bc7c6", "6d5451fd"]


def test_choose_is_a_permutation() -> None:
    for n in (1, 2, 3, 5, 16, 17, 100):
        assert sorted(words.choose(compll.Key(seed=9), n, n).tolist()) == list(range(n))
