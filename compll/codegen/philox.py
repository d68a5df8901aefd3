"""Counter-based random numbers: Philox4x32-10 (Salmon et al., SC'11) and the four draws of docs/numerics.md, section 7.

Pure functions of key and position, vectorised over positions; no generator object, no state.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

_M0, _M1 = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_W0, _W1 = 0x9E3779B9, 0xBB67AE85
_LOW = np.uint64(0xFFFFFFFF)
_32 = np.uint64(32)
_NORMAL_SCALE = np.float32(float.fromhex("0x1.3988e2p-16"))  # 1 / (65536 * sqrt(8 / 12))
_CHOOSE_ROUNDS = 8
_CHOOSE_BITS = 6  # halves of fewer than three bits are visibly uneven at eight rounds


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyWords:
    """What draws depend on besides stream and position: key words, counter words, the element offset of a partition."""

    seed: int = 0
    owner: int = 0
    step: int = 0
    gradient_id: int = 0
    base: int = 0


def philox(counter: tuple[Array, Array, Array, Array], key: tuple[int, int]) -> tuple[Array, Array, Array, Array]:
    """Ten rounds over four uint64 arrays that hold 32-bit words; four such arrays come out."""
    c0, c1, c2, c3 = counter
    for i in range(10):
        k0, k1 = np.uint64((key[0] + i * _W0) & 0xFFFFFFFF), np.uint64((key[1] + i * _W1) & 0xFFFFFFFF)
        p0, p1 = _M0 * c0, _M1 * c2
        c0, c1, c2, c3 = (p1 >> _32) ^ c1 ^ k0, p1 & _LOW, (p0 >> _32) ^ c3 ^ k1, p0 & _LOW
    return c0, c1, c2, c3


def blocks(index: Array, key: KeyWords, stream: int, shared: bool) -> Array:
    """The four words of each block: uint64 [4, ...] for a uint64 array of block numbers."""
    if not 0 <= stream < 256:
        raise ValueError(f"a stream is 0..255, got {stream}")
    low, high = index & _LOW, (index >> _32) | np.uint64(stream << 24)
    step, gradient = np.full_like(index, key.step), np.full_like(index, key.gradient_id)
    return np.stack(philox((low, high, step, gradient), (key.seed, 0 if shared else key.owner)))


def _distinct_blocks(number: Array, key: KeyWords, stream: int, shared: bool) -> tuple[Array, Array]:
    """The words of the blocks that `number` mentions, each drawn once, and where each position finds its own."""
    distinct, inverse = np.unique(number, return_inverse=True)
    return blocks(distinct, key, stream, shared), inverse.reshape(number.shape)


def _words(position: Array, key: KeyWords, stream: int, shared: bool) -> Array:
    """Word i mod 4 of block i div 4, i = base + position."""
    i = position.astype(np.uint64) + np.uint64(key.base)
    words, inverse = _distinct_blocks(i // np.uint64(4), key, stream, shared)
    result: Array = words[(i % np.uint64(4)).astype(np.intp), inverse]
    return result


def uniform(position: Array, key: KeyWords, stream: int, shared: bool, bits: int = 32) -> Array:
    """f32 in [0, 1) from 24 bits of a word, or from a 16-bit half."""
    if bits == 32:
        high: Array = _words(position, key, stream, shared) >> np.uint64(8)
        return high.astype(np.float32) * np.float32(2.0**-24)
    i = position.astype(np.uint64) + np.uint64(key.base)
    words, inverse = _distinct_blocks(i // np.uint64(8), key, stream, shared)
    word = words[((i % np.uint64(8)) // np.uint64(2)).astype(np.intp), inverse]
    half: Array = ((word >> (np.uint64(16) * (i % np.uint64(2)))) & np.uint64(0xFFFF)).astype(np.float32)
    return half * np.float32(2.0**-16)


def normal(position: Array, key: KeyWords, stream: int, shared: bool) -> Array:
    """f32, the centred and scaled sum of the eight halves of block i: mean 0, variance 1, |x| < 4.91."""
    words = blocks(position.astype(np.uint64) + np.uint64(key.base), key, stream, shared)
    total: Array = ((words & np.uint64(0xFFFF)) + (words >> np.uint64(16))).sum(axis=0)
    centred: Array = (total.astype(np.int64) - 262140).astype(np.float32)
    return centred * _NORMAL_SCALE


def sample_index(position: Array, extent: int, key: KeyWords, stream: int, shared: bool) -> Array:
    """u32 below `extent`, with replacement."""
    scaled: Array = (_words(position, key, stream, shared) * np.uint64(extent)) >> _32
    return scaled.astype(np.uint32)


def choose(position: Array, extent: int, key: KeyWords, stream: int, shared: bool) -> Array:
    """u32: a keyed permutation of 0 .. extent - 1 (Feistel network, cycle walking); `extent` for positions beyond."""
    result = np.full(position.shape, extent, np.uint32)
    if extent <= 1:
        return np.minimum(position, extent).astype(np.uint32)
    round_keys = blocks(np.arange(2, dtype=np.uint64), key, stream, shared).T.reshape(-1).astype(np.uint32)
    half = (max(_CHOOSE_BITS, (extent - 1).bit_length()) + 1) // 2
    inside = position < extent
    x = position[inside].astype(np.uint32)
    x = _feistel(x, half, round_keys)
    while (outside := x >= extent).any():
        x[outside] = _feistel(x[outside], half, round_keys)
    result[inside] = x
    return result


def _feistel(x: Array, half: int, round_keys: Array) -> Array:
    mask, shift = np.uint32((1 << half) - 1), np.uint32(half)
    left, right = x >> shift, x & mask
    for i in range(_CHOOSE_ROUNDS):
        left, right = right, left ^ (_mix(right ^ round_keys[i]) & mask)
    return (left << shift) | right


def _mix(v: Array) -> Array:
    v = v * np.uint32(0x9E3779B1)
    v = v ^ (v >> np.uint32(15))
    v = v * np.uint32(0x85EBCA77)
    v = v ^ (v >> np.uint32(13))
    v = v * np.uint32(0xC2B2AE3D)
    result: Array = v ^ (v >> np.uint32(16))
    return result
