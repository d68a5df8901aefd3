"""Philox against Random123's known answers and whole-number Python; draws against their formulas, word by word."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from compll.codegen import philox
from compll.codegen.philox import KeyWords

MASK = 0xFFFFFFFF
KEY = KeyWords(seed=123, owner=7, step=5, gradient_id=9, base=0)


def reference(counter: list[int], key: tuple[int, int]) -> list[int]:
    c, (k0, k1) = list(counter), key
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(p1 >> 32) ^ c[1] ^ k0, p1 & MASK, (p0 >> 32) ^ c[3] ^ k1, p0 & MASK]
        k0, k1 = (k0 + 0x9E3779B9) & MASK, (k1 + 0xBB67AE85) & MASK
    return c


def block(number: int, key: KeyWords, stream: int, shared: bool) -> list[int]:
    counter = [number & MASK, (number >> 32) | (stream << 24), key.step, key.gradient_id]
    return reference(counter, (key.seed, 0 if shared else key.owner))


@pytest.mark.parametrize(
    ("counter", "key", "answer"),
    [
        ([0] * 4, (0, 0), "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        ([MASK] * 4, (MASK, MASK), "408f276d 41c83b0e a20bc7c6 6d5451fd"),
        (
            [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
            (0xA4093822, 0x299F31D0),
            "d16cfe09 94fdcceb 5001e420 24126ea1",
        ),
    ],
)
def test_known_answers(counter, key, answer):
    words = philox.philox(tuple(np.array([c], np.uint64) for c in counter), key)
    assert " ".join(f"{int(w[0]):08x}" for w in words) == answer
    assert " ".join(f"{w:08x}" for w in reference(counter, key)) == answer


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("base", [0, 3, 4096, (1 << 35) + 5])
def test_draws_follow_their_formulas(base, shared):
    key = KeyWords(seed=1, owner=2, step=3, gradient_id=4, base=base)
    position = np.array([0, 1, 2, 3, 4, 9, 100, 4097])
    i = [base + int(p) for p in position]
    word = [block(p // 4, key, 6, shared)[p % 4] for p in i]
    half = [(block(p // 8, key, 6, shared)[p % 8 // 2] >> (16 * (p % 2))) & 0xFFFF for p in i]
    total = [sum((w & 0xFFFF) + (w >> 16) for w in block(p, key, 6, shared)) for p in i]
    assert philox.uniform(position, key, 6, shared).tolist() == [(w >> 8) / 2**24 for w in word]
    assert philox.uniform(position, key, 6, shared, bits=16).tolist() == [h / 2**16 for h in half]
    assert philox.sample_index(position, 1000003, key, 6, shared).tolist() == [w * 1000003 >> 32 for w in word]
    exact = [(t - 262140) / (65536 * (8 / 12) ** 0.5) for t in total]
    np.testing.assert_allclose(philox.normal(position, key, 6, shared), exact, rtol=2e-7)


def test_streams_steps_gradients_seeds_and_owners_differ():
    position = np.arange(64)
    keys = [KEY, KeyWords(seed=124, owner=7, step=5, gradient_id=9), KeyWords(seed=123, owner=8, step=5, gradient_id=9)]
    keys += [KeyWords(seed=123, owner=7, step=6, gradient_id=9), KeyWords(seed=123, owner=7, step=5, gradient_id=8)]
    draws = [philox.uniform(position, k, 0, False).tobytes() for k in keys]
    draws += [philox.uniform(position, KEY, 1, False).tobytes(), philox.uniform(position, KEY, 0, True).tobytes()]
    assert len(set(draws)) == len(draws)
    assert philox.uniform(position, keys[2], 0, True).tobytes() == draws[-1]


def test_distributions():
    position = np.arange(200_000)
    u, z = philox.uniform(position, KEY, 0, False), philox.normal(position, KEY, 1, False)
    assert 0 <= u.min() and u.max() < 1 and abs(u.mean() - 0.5) < 5 * (1 / 12 / u.size) ** 0.5
    assert abs(z.mean()) < 5 / z.size**0.5 and abs(z.var() - 1) < 0.02 and np.abs(z).max() < 4.91
    counts = np.bincount(philox.sample_index(position, 7, KEY, 2, False), minlength=7)
    assert np.abs(counts - position.size / 7).max() < 5 * (position.size / 7) ** 0.5


@pytest.mark.parametrize("n", [*range(0, 20), 63, 64, 65, 255, 256, 257, 4097])
def test_choose_is_a_permutation(n):
    drawn = philox.choose(np.arange(n + 2), n, KEY, 3, True)
    assert sorted(drawn[:n].tolist()) == list(range(n))
    assert drawn[n:].tolist() == [n, n]
    moved = KeyWords(seed=123, owner=7, step=5, gradient_id=9, base=4096)
    assert philox.choose(np.arange(n + 2), n, moved, 3, True).tolist() == drawn.tolist()


def test_choose_at_large_extents():
    for n in (2**31 - 1, 2**31 + 11, 2**32 - 2):
        drawn = philox.choose(np.arange(5000), n, KEY, 3, True)
        assert len(set(drawn.tolist())) == 5000 and drawn.max() < n
        assert n / 8 < np.median(drawn) < 7 * n / 8


@pytest.mark.parametrize("n", [2, 3, 5])
def test_choose_is_even_over_seeds(n):
    """Chi squared of the first two images against all ordered pairs."""
    seeds = 1500
    pairs = Counter(
        tuple(philox.choose(np.arange(2), n, KeyWords(seed=s, step=s % 7), 0, True).tolist()) for s in range(seeds)
    )
    cells = n * (n - 1)
    expected = seeds / cells
    chi = sum((pairs[a, b] - expected) ** 2 / expected for a in range(n) for b in range(n) if a != b)
    assert sum(pairs.values()) == seeds and len(pairs) == cells
    assert chi < (cells - 1) + 5 * (2 * (cells - 1)) ** 0.5


def test_a_stream_has_eight_bits():
    with pytest.raises(ValueError, match="0..255"):
        philox.uniform(np.arange(1), KEY, 256, False)
