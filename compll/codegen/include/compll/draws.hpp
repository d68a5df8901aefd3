// Strips of uniform draws: every Philox block is computed once, eight side by side.
#pragma once

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#include <compll/philox.h>

namespace compll {

#if defined(__AVX2__)

// The high and the low halves of factor * x, for eight lanes.
inline void multiply_wide(__m256i factor, __m256i x, __m256i& high, __m256i& low) {
    const __m256i even = _mm256_mul_epu32(factor, x);
    const __m256i odd = _mm256_mul_epu32(factor, _mm256_srli_epi64(x, 32));
    high = _mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xaa);
    low = _mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xaa);
}

// The 32 words of blocks block .. block + 7, block by block. The eight must not cross a multiple of 2^32.
inline void philox_eight(const Stream& stream, uint64_t block, uint32_t* words) {
    const __m256i first = _mm256_set1_epi32(int32_t(0xd2511f53u));
    const __m256i second = _mm256_set1_epi32(int32_t(0xcd9e8d57u));
    __m256i c0 = _mm256_add_epi32(_mm256_set1_epi32(int32_t(uint32_t(block))),
                                  _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
    __m256i c1 = _mm256_set1_epi32(int32_t(uint32_t(block >> 32) | stream.number << 24));
    __m256i c2 = _mm256_set1_epi32(int32_t(stream.step));
    __m256i c3 = _mm256_set1_epi32(int32_t(stream.gradient));
    uint32_t k0 = stream.seed;
    uint32_t k1 = stream.owner;
    for (int round = 0; round < 10; round++) {
        __m256i high0, low0, high1, low1;
        multiply_wide(first, c0, high0, low0);
        multiply_wide(second, c2, high1, low1);
        c0 = _mm256_xor_si256(_mm256_xor_si256(high1, c1), _mm256_set1_epi32(int32_t(k0)));
        c2 = _mm256_xor_si256(_mm256_xor_si256(high0, c3), _mm256_set1_epi32(int32_t(k1)));
        c1 = low1;
        c3 = low0;
        k0 += 0x9e3779b9u;
        k1 += 0xbb67ae85u;
    }
    const __m256i a = _mm256_unpacklo_epi32(c0, c1), b = _mm256_unpackhi_epi32(c0, c1);
    const __m256i c = _mm256_unpacklo_epi32(c2, c3), d = _mm256_unpackhi_epi32(c2, c3);
    const __m256i b04 = _mm256_unpacklo_epi64(a, c), b15 = _mm256_unpackhi_epi64(a, c);
    const __m256i b26 = _mm256_unpacklo_epi64(b, d), b37 = _mm256_unpackhi_epi64(b, d);
    __m256i* out = reinterpret_cast<__m256i*>(words);
    _mm256_storeu_si256(out, _mm256_permute2x128_si256(b04, b15, 0x20));
    _mm256_storeu_si256(out + 1, _mm256_permute2x128_si256(b26, b37, 0x20));
    _mm256_storeu_si256(out + 2, _mm256_permute2x128_si256(b04, b15, 0x31));
    _mm256_storeu_si256(out + 3, _mm256_permute2x128_si256(b26, b37, 0x31));
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
