// Strips of uniform draws: every Philox block is computed once, eight side by side.
#pragma once

#include <cstring>

#include <compll/philox.h>
#include <compll/vector.hpp>

namespace compll {

// The 32 words of blocks block .. block + 7, block by block. The eight must not cross a multiple of 2^32.
#if COMPLL_AVX2

inline void philox_eight(const Stream& stream, uint64_t block, uint32_t* words) {
    u32x8 c0 = uint32_t(block) + u32x8{0, 1, 2, 3, 4, 5, 6, 7};
    u32x8 c1 = (uint32_t(block >> 32) | stream.number << 24) + u32x8{};
    u32x8 c2 = stream.step + u32x8{};
    u32x8 c3 = stream.gradient + u32x8{};
    uint32_t k0 = stream.seed;
    uint32_t k1 = stream.owner;
    for (int round = 0; round < 10; round++) {
        u32x8 high0, low0, high1, low1;
        multiply_wide(0xd2511f53u + u32x8{}, c0, high0, low0);
        multiply_wide(0xcd9e8d57u + u32x8{}, c2, high1, low1);
        c0 = high1 ^ c1 ^ k0;
        c2 = high0 ^ c3 ^ k1;
        c1 = low1;
        c3 = low0;
        k0 += 0x9e3779b9u;
        k1 += 0xbb67ae85u;
    }
    // Four vectors of one word of each block become four vectors of two blocks.
    const u32x8 low01 = __builtin_shuffle(c0, c1, u32x8{0, 8, 1, 9, 2, 10, 3, 11});
    const u32x8 high01 = __builtin_shuffle(c0, c1, u32x8{4, 12, 5, 13, 6, 14, 7, 15});
    const u32x8 low23 = __builtin_shuffle(c2, c3, u32x8{0, 8, 1, 9, 2, 10, 3, 11});
    const u32x8 high23 = __builtin_shuffle(c2, c3, u32x8{4, 12, 5, 13, 6, 14, 7, 15});
    const u32x8 first = {0, 1, 8, 9, 2, 3, 10, 11};
    const u32x8 second = {4, 5, 12, 13, 6, 7, 14, 15};
    const u32x8 pairs[4] = {
        __builtin_shuffle(low01, low23, first), __builtin_shuffle(low01, low23, second),
        __builtin_shuffle(high01, high23, first), __builtin_shuffle(high01, high23, second),
    };
    std::memcpy(words, pairs, sizeof pairs);
}

#else

inline void philox_eight(const Stream& stream, uint64_t block, uint32_t* words) {
    for (int b = 0; b < 8; b++) {
        const Words w = philox(stream, block + uint64_t(b));
        for (int j = 0; j < 4; j++) words[4 * b + j] = w.word[j];
    }
}

#endif

// The words of `blocks` blocks; room for a multiple of eight blocks.
inline void philox_words(const Stream& stream, uint64_t block, int blocks, uint32_t* words) {
    for (int b = 0; b < blocks; b += 8) {
        const uint64_t first = block + uint64_t(b);
        if ((first >> 32) == ((first + 7u) >> 32) && blocks - b > 1) {
            philox_eight(stream, first, words + 4 * b);
            continue;
        }
        for (int i = b; i < b + 8 && i < blocks; i++) {
            const Words w = philox(stream, block + uint64_t(i));
            for (int j = 0; j < 4; j++) words[4 * i + j] = w.word[j];
        }
    }
}

// out[i] = the draw at position + i, for count <= 64; BITS is 32 or 16.
template <int BITS>
inline void uniform_strip(const Stream& stream, int64_t position, int count, float* out) {
    constexpr int PER_BLOCK = BITS == 32 ? 4 : 8;
    const uint64_t i0 = stream.base + uint64_t(position);
    const int skip = int(i0 % PER_BLOCK);
    const int blocks = (skip + count + PER_BLOCK - 1) / PER_BLOCK;
    uint32_t words[4 * 24];
    philox_words(stream, i0 / PER_BLOCK, blocks, words);
    if constexpr (BITS == 32) {
        for (int i = 0; i < count; i++) out[i] = unit_from_word(words[skip + i]);
    } else {
        uint16_t halves[2 * 4 * 24];
        for (int i = 0; i < 4 * blocks; i++) {
            halves[2 * i] = uint16_t(words[i]);
            halves[2 * i + 1] = uint16_t(words[i] >> 16);
        }
        for (int i = 0; i < count; i++) out[i] = unit_from_half(halves[skip + i]);
    }
}

}  // namespace compll
