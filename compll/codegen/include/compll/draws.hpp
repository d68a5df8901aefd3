// Strips of uniform draws: every Philox block is computed once, many side by side.
#pragma once

#include <compll/philox.h>

namespace compll {

// out[i] = the draw at position + i, for count <= 64; BITS is 32 or 16.
template <int BITS>
inline void uniform_strip(const Stream& stream, int64_t position, int count, float* out) {
    constexpr int PER_BLOCK = BITS == 32 ? 4 : 8;
    constexpr int BLOCKS = STRIP / PER_BLOCK + 1;
    const uint64_t i0 = stream.base + uint64_t(position);
    const uint64_t block0 = i0 / PER_BLOCK;
    const int skip = int(i0 % PER_BLOCK);
    const int blocks = (skip + count + PER_BLOCK - 1) / PER_BLOCK;
    uint32_t word[4][BLOCKS];
#pragma omp simd
    for (int b = 0; b < blocks; b++) {
        const Words w = philox(stream, block0 + uint64_t(b));
        word[0][b] = w.word[0];
        word[1][b] = w.word[1];
        word[2][b] = w.word[2];
        word[3][b] = w.word[3];
    }
    for (int i = 0; i < count; i++) {
        const int j = skip + i;
        if (BITS == 32) {
            out[i] = unit_from_word(word[j % 4][j / 4]);
        } else {
            const uint32_t w = word[j % 8 / 2][j / 8];
            out[i] = unit_from_half(j % 2 != 0 ? w >> 16 : w & 0xffffu);
        }
    }
}

}  // namespace compll
