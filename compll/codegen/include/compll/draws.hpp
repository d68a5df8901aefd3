// Strips of uniform draws: every Philox block is computed once, several side by side.
#pragma once

#include <cstring>

#include <compll/philox.h>
#include <compll/vector.hpp>

namespace compll {

#if COMPLL_AVX2

// So many blocks are computed side by side, one in every word of a vector: a word of Philox is the low half of its lane,
// and what multiplications leave in the high half is never read.
constexpr int LANES = int(sizeof(u64_wide) / sizeof(uint64_t));

// The 4 LANES words of blocks block .. block + LANES - 1, which must not cross a multiple of 2^32, block by block.
inline void philox_lanes(const Stream& stream, uint64_t block, uint32_t* words) {
#if COMPLL_AVX512
    const u64_wide own = {0, 4, 1, 5, 2, 6, 3, 7};  // so that the interleavings below put blocks in order
#else
    const u64_wide own = {0, 2, 1, 3};
#endif
    u64_wide c0 = uint64_t(uint32_t(block)) + own;
    u64_wide c1 = uint64_t(uint32_t(block >> 32) | stream.number << 24) + u64_wide{};
    u64_wide c2 = uint64_t(stream.step) + u64_wide{};
    u64_wide c3 = uint64_t(stream.gradient) + u64_wide{};
    uint32_t k0 = stream.seed;
    uint32_t k1 = stream.owner;
#pragma GCC unroll 10
    for (int round = 0; round < 10; round++) {
        const u64_wide first = multiply_low(0xd2511f53u, c0);
        const u64_wide second = multiply_low(0xcd9e8d57u, c2);
        c0 = (second >> 32) ^ c1 ^ uint64_t(k0);
        c2 = (first >> 32) ^ c3 ^ uint64_t(k1);
        c1 = second;
        c3 = first;
        k0 += 0x9e3779b9u;
        k1 += 0xbb67ae85u;
    }
    const u64_wide low = (c0 & uint64_t{0xffffffffu}) | c1 << 32;
    const u64_wide high = (c2 & uint64_t{0xffffffffu}) | c3 << 32;
    const u64_wide front = interleave_even(low, high);
    const u64_wide back = interleave_odd(low, high);
    std::memcpy(words, &front, sizeof front);
    std::memcpy(words + 2 * LANES, &back, sizeof back);
}

#else

constexpr int LANES = 8;

inline void philox_lanes(const Stream& stream, uint64_t block, uint32_t* words) {
    for (int b = 0; b < LANES; b++) {
        const Words w = philox(stream, block + uint64_t(b));
        for (int j = 0; j < 4; j++) words[4 * b + j] = w.word[j];
    }
}

#endif

constexpr int ROOM = 4 * 24;  // the words of a strip: 17 blocks, and what a whole group has more

// The words of `blocks` blocks; room for a multiple of LANES blocks.
inline void philox_words(const Stream& stream, uint64_t block, int blocks, uint32_t* words) {
    for (int b = 0; b < blocks; b += LANES) {
        const uint64_t first = block + uint64_t(b);
        if ((first >> 32) == ((first + uint64_t(LANES - 1)) >> 32) && blocks - b > 1) {
            philox_lanes(stream, first, words + 4 * b);
            continue;
        }
        for (int i = b; i < b + LANES && i < blocks; i++) {
            const Words w = philox(stream, block + uint64_t(i));
            for (int j = 0; j < 4; j++) words[4 * i + j] = w.word[j];
        }
    }
}

// The words of the blocks that hold draws position .. position + count - 1 of a strip, PER_BLOCK to a block; returns the
// number of draws before the first.
template <int PER_BLOCK>
inline int strip_words(const Stream& stream, int64_t position, int count, uint32_t (&words)[ROOM]) {
    const uint64_t i0 = stream.base + uint64_t(position);
    const int skip = int(i0 % PER_BLOCK);
    philox_words(stream, i0 / PER_BLOCK, (skip + count + PER_BLOCK - 1) / PER_BLOCK, words);
    return skip;
}

// out[i] = the draw at position + i, for count <= 64; BITS is 32 or 16.
template <int BITS>
inline void uniform_strip(const Stream& stream, int64_t position, int count, float* out) {
    uint32_t words[ROOM];
    if constexpr (BITS == 32) {
        const int skip = strip_words<4>(stream, position, count, words);
        for (int i = 0; i < count; i++) out[i] = unit_from_word(words[skip + i]);
    } else {
        const int skip = strip_words<8>(stream, position, count, words);
        uint16_t halves[2 * ROOM];
        for (int i = 0; i < (skip + count + 1) / 2; i++) {
            halves[2 * i] = uint16_t(words[i]);
            halves[2 * i + 1] = uint16_t(words[i] >> 16);
        }
        for (int i = 0; i < count; i++) out[i] = unit_from_half(halves[skip + i]);
    }
}

// out[i] = sample_index(position + i).
inline void sample_strip(const Stream& stream, int64_t position, int count, uint64_t extent, uint32_t* out) {
    uint32_t words[ROOM];
    const int skip = strip_words<4>(stream, position, count, words);
    for (int i = 0; i < count; i++) out[i] = uint32_t((words[skip + i] * extent) >> 32);
}

inline uint32_t largest(const uint32_t* values, int count) {
    uint32_t most = 0u;
    for (int i = 0; i < count; i++) most = maximum(most, values[i]);
    return most;
}

// out[i] = choose(position + i): all walk together until the last has arrived.
inline void choose_strip(const Permutation& p, int64_t position, int count, uint32_t* out) {
    if (position + count > int64_t(p.extent) || p.extent <= 1u) {
        for (int i = 0; i < count; i++) out[i] = choose(p, uint64_t(position + i));
        return;
    }
    for (int i = 0; i < count; i++) out[i] = feistel(p, uint32_t(position + i));
    while (largest(out, count) >= p.extent) {
        for (int i = 0; i < count; i++) out[i] = out[i] >= p.extent ? feistel(p, out[i]) : out[i];
    }
}

}  // namespace compll
