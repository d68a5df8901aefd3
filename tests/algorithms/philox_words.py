"""The random words of docs/numerics.md as tensors, drawn one at a time in plain Python: an oracle, not a generator.

Philox4x32-10 (Salmon et al., SC'11); counter (block mod 2^32, block >> 32 | stream << 24, step, gradient), key (seed,
owner), owner 0 for a shared draw and rank + 1 for a private one. All draws here are of stream 0.
"""

from __future__ import annotations

import torch
from torch import Tensor

import compll

MASK = 0xFFFFFFFF


def philox(counter: list[int], key: list[int]) -> list[int]:
    """Ten rounds; Random123's constants."""
    (c0, c1, c2, c3), (k0, k1) = counter, key
    for _ in range(10):
        left, right = 0xD2511F53 * c0, 0xCD9E8D57 * c2
        c0, c1, c2, c3 = (right >> 32) ^ c1 ^ k0, right & MASK, (left >> 32) ^ c3 ^ k1, left & MASK
        k0, k1 = (k0 + 0x9E3779B9) & MASK, (k1 + 0xBB67AE85) & MASK
    return [c0, c1, c2, c3]


def block(key: compll.Key, number: int, shared: bool) -> list[int]:
    owner = 0 if shared else key.rank + 1
    return philox([number & MASK, number >> 32, key.step, key.gradient], [key.seed, owner])


def words(key: compll.Key, count: int, shared: bool = False) -> list[int]:
    """The first `count` words: word i mod 4 of block i div 4."""
    return [word for number in range((count + 3) // 4) for word in block(key, number, shared)][:count]


def uniform(key: compll.Key, n: int) -> Tensor:
    """f32 in [0, 1): the upper 24 bits of a word."""
    return torch.tensor([(word >> 8) * 2.0**-24 for word in words(key, n)])


def sample(key: compll.Key, n: int, count: int) -> Tensor:
    """`count` positions below n, with replacement."""
    return torch.tensor([(word * n) >> 32 for word in words(key, count)])


def choose(key: compll.Key, n: int, count: int) -> Tensor:
    """`count` distinct positions below n: a shared keyed permutation, eight Feistel rounds with cycle walking."""
    keys = words(key, 8, shared=True)
    bits = max(2, (n - 1).bit_length())
    half = (bits + bits % 2) // 2
    return torch.tensor([_permuted(i, n, half, keys) for i in range(count)])


def _permuted(position: int, n: int, half: int, keys: list[int]) -> int:
    mask = (1 << half) - 1
    while n > 1:
        left, right = position >> half, position & mask
        for key in keys:
            left, right = right, left ^ (_mix(right ^ key) & mask)
        position = left << half | right
        if position < n:
            return position
    return 0


def _mix(value: int) -> int:
    value = value * 0x9E3779B1 & MASK
    value = (value ^ value >> 15) * 0x85EBCA77 & MASK
    value = (value ^ value >> 13) * 0xC2B2AE3D & MASK
    return value ^ value >> 16
