// Codes of width 1..16 in a packed section: element i is bits [i * width, (i + 1) * width), lowest first.
// Eight codes are exactly `width` bytes, which is the unit here. For g++, nvcc and NVRTC.
#pragma once

#include <compll/scalar.h>

namespace compll {

// The fields of HALF bits in every SIZE bits of `x`, two by two: the upper one of a pair is moved down onto the lower one,
// so that SIZE bits hold 2 HALF bits. The masks keep what is moved from what stays: they overlap where 2 HALF > SIZE / 2.
// `Word`: uint64_t, or a vector of them.
template <int SIZE, int HALF, class Word>
COMPLL_FN Word join_pairs(Word x) {
    const uint64_t each = SIZE == 64 ? 1u : ~uint64_t{0} / ((uint64_t{1} << (SIZE & 63)) - 1u);
    const uint64_t lower = each * ((uint64_t{1} << HALF) - 1u);
    return (x & lower) | (x >> (SIZE / 2 - HALF) & lower << HALF);
}

// The inverse.
template <int SIZE, int HALF, class Word>
COMPLL_FN Word split_pairs(Word x) {
    const uint64_t each = SIZE == 64 ? 1u : ~uint64_t{0} / ((uint64_t{1} << (SIZE & 63)) - 1u);
    const uint64_t lower = each * ((uint64_t{1} << HALF) - 1u);
    return (x & lower) | (x & lower << HALF) << (SIZE / 2 - HALF);
}

// The low bits of eight codes of up to 8 bits, one per byte of `codes`, squeezed into the low WIDTH bytes.
template <int WIDTH, class Word>
COMPLL_FN Word pack_bytes(Word codes) {
    static_assert(WIDTH >= 1 && WIDTH <= 8, "one code per byte");
    if (WIDTH == 8) return codes;
    return join_pairs<64, 4 * WIDTH>(join_pairs<32, 2 * WIDTH>(join_pairs<16, WIDTH>(codes)));
}

// The inverse: eight codes from the low WIDTH bytes, one per byte.
template <int WIDTH, class Word>
COMPLL_FN Word unpack_bytes(Word packed) {
    static_assert(WIDTH >= 1 && WIDTH <= 8, "one code per byte");
    if (WIDTH == 8) return packed;
    return split_pairs<16, WIDTH>(split_pairs<32, 2 * WIDTH>(split_pairs<64, 4 * WIDTH>(packed)));
}

// Four codes of 9 to 16 bits, one per half word of `codes`, squeezed into the low 4 WIDTH bits.
template <int WIDTH>
COMPLL_FN uint64_t pack_halves(uint64_t codes) {
    static_assert(WIDTH > 8 && WIDTH <= 16, "one code per half word");
    if (WIDTH == 16) return codes;
    return join_pairs<64, 2 * WIDTH>(join_pairs<32, WIDTH>(codes));
}

// The inverse; bits from 4 WIDTH on are ignored.
template <int WIDTH>
COMPLL_FN uint64_t unpack_halves(uint64_t packed) {
    static_assert(WIDTH > 8 && WIDTH <= 16, "one code per half word");
    if (WIDTH == 16) return packed;
    return split_pairs<32, WIDTH>(split_pairs<64, 2 * WIDTH>(packed));
}

// Code `index` of a section; reads only bytes that hold it.
template <int WIDTH>
COMPLL_FN uint32_t unpack_at(const uint8_t* section, int64_t index) {
    const uint64_t bit = uint64_t(index) * WIDTH;
    const uint8_t* byte = section + (bit >> 3);
    const uint32_t shift = uint32_t(bit & 7u);
    uint32_t word = byte[0];
    if (shift + WIDTH > 8u) word |= uint32_t(byte[1]) << 8;
    if (shift + WIDTH > 16u) word |= uint32_t(byte[2]) << 16;
    return (word >> shift) & ((1u << WIDTH) - 1u);
}

}  // namespace compll
