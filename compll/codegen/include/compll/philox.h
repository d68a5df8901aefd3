// Philox4x32-10 (Salmon et al., SC'11) and the draws of docs/numerics.md, section 7. For g++, nvcc and NVRTC.
#pragma once

#include <compll/scalar.h>

namespace compll {

// One draw of a program for one segment: everything but the position.
struct Stream {
    uint32_t seed;
    uint32_t owner;    // 0 for a shared draw
    uint32_t step;
    uint32_t gradient;
    uint32_t number;   // 0..255: the ordinal of the draw
    uint64_t base;     // element offset of a partition
};

struct Words {
    uint32_t word[4];
};

COMPLL_FN Words philox(const Stream& stream, uint64_t block) {
    uint32_t c0 = uint32_t(block);
    uint32_t c1 = uint32_t(block >> 32) | stream.number << 24;
    uint32_t c2 = stream.step;
    uint32_t c3 = stream.gradient;
    uint32_t k0 = stream.seed;
    uint32_t k1 = stream.owner;
    for (int round = 0; round < 10; round++) {
        const uint64_t first = uint64_t{0xd2511f53u} * c0;
        const uint64_t second = uint64_t{0xcd9e8d57u} * c2;
        c0 = uint32_t(second >> 32) ^ c1 ^ k0;
        c2 = uint32_t(first >> 32) ^ c3 ^ k1;
        c1 = uint32_t(second);
        c3 = uint32_t(first);
        k0 += 0x9e3779b9u;
        k1 += 0xbb67ae85u;
    }
    return Words{{c0, c1, c2, c3}};
}

COMPLL_FN float unit_from_word(uint32_t word) { return float(int32_t(word >> 8)) * 0x1p-24f; }
COMPLL_FN float unit_from_half(uint32_t half) { return float(int32_t(half)) * 0x1p-16f; }

// Word i mod 4 of block i div 4.
COMPLL_FN uint32_t random_word(const Stream& stream, uint64_t position) {
    const uint64_t i = stream.base + position;
    return philox(stream, i >> 2).word[i & 3u];
}

// In [0, 1); `position` is without the base.
COMPLL_FN float uniform32(const Stream& stream, uint64_t position) {
    return unit_from_word(random_word(stream, position));
}

COMPLL_FN float uniform16(const Stream& stream, uint64_t position) {
    const uint64_t i = stream.base + position;
    const uint32_t word = philox(stream, i >> 3).word[(i >> 1) & 3u];
    return unit_from_half((i & 1u) != 0u ? word >> 16 : word & 0xffffu);
}

// A sum of eight uniforms: mean 0, variance 1 within 1e-4, |x| < 4.91.
COMPLL_FN float normal(const Stream& stream, uint64_t position) {
    const Words w = philox(stream, stream.base + position);
    uint32_t sum = 0u;
    for (int j = 0; j < 4; j++) sum += (w.word[j] & 0xffffu) + (w.word[j] >> 16);
    return float(int32_t(sum) - 262140) * 0x1.3988e2p-16f;
}

COMPLL_FN uint32_t sample_index(const Stream& stream, uint64_t position, uint64_t extent) {
    return uint32_t((uint64_t(random_word(stream, position)) * extent) >> 32);
}

// A keyed permutation of 0 .. extent - 1: eight Feistel rounds with cycle walking.
struct Permutation {
    uint32_t extent;
    uint32_t half_bits;
    uint32_t mask;
    uint32_t key[8];
};

COMPLL_FN Permutation permutation(const Stream& stream, uint64_t extent) {
    Permutation p{};
    p.extent = uint32_t(extent);
    const uint32_t length = extent > 1u ? 32u - leading_zeros(uint32_t(extent) - 1u) : 0u;
    p.half_bits = ((length < 6u ? 6u : length) + 1u) / 2u;
    p.mask = (1u << p.half_bits) - 1u;
    for (uint32_t block = 0u; block < 2u; block++) {
        const Words w = philox(stream, block);
        for (uint32_t j = 0u; j < 4u; j++) p.key[4u * block + j] = w.word[j];
    }
    return p;
}

COMPLL_FN uint32_t feistel_round(uint32_t v) {
    v *= 0x9e3779b1u;
    v ^= v >> 15;
    v *= 0x85ebca77u;
    v ^= v >> 13;
    v *= 0xc2b2ae3du;
    return v ^ (v >> 16);
}

// The network alone: a permutation of 0 .. 2^(2 half_bits) - 1.
COMPLL_FN uint32_t feistel(const Permutation& p, uint32_t x) {
    uint32_t left = x >> p.half_bits;
    uint32_t right = x & p.mask;
    for (int i = 0; i < 8; i++) {
        const uint32_t next = left ^ (feistel_round(right ^ p.key[i]) & p.mask);
        left = right;
        right = next;
    }
    return left << p.half_bits | right;
}

// The image of `position`; the extent for positions beyond. Ends: the walk is a cycle of a permutation and starts below the extent.
COMPLL_FN uint32_t choose(const Permutation& p, uint64_t position) {
    if (position >= p.extent) return p.extent;
    if (p.extent <= 1u) return 0u;
    uint32_t x = uint32_t(position);
    do {
        x = feistel(p, x);
    } while (x >= p.extent);
    return x;
}

}  // namespace compll
