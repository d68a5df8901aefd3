// Codes of width 1..16 in a packed section: element i is bits [i * width, (i + 1) * width), lowest first.
// Eight codes are exactly `width` bytes, which is the unit here. For g++, nvcc and NVRTC.
#pragma once

#include <compll/scalar.h>

namespace compll {

// The low bytes of eight codes of up to 8 bits, one per byte of `codes`, squeezed into the low WIDTH bytes.
template <int WIDTH>
COMPLL_FN uint64_t pack_bytes(uint64_t codes) {
    static_assert(WIDTH >= 1 && WIDTH <= 8, "one code per byte");
    uint64_t x = codes;
    if (WIDTH < 8) {
        x = (x | x >> (8 - WIDTH)) & uint64_t{0x0001000100010001u} * ((1u << 2 * WIDTH) - 1u);
        x = (x | x >> (16 - 2 * WIDTH)) & uint64_t{0x0000000100000001u} * ((uint64_t{1} << 4 * WIDTH) - 1u);
        x = (x | x >> (32 - 4 * WIDTH)) & ((uint64_t{1} << (8 * WIDTH & 63)) - 1u);
    }
    return x;
}

// The inverse: eight codes from the low WIDTH bytes, one per byte.
template <int WIDTH>
COMPLL_FN uint64_t unpack_bytes(uint64_t packed) {
    static_assert(WIDTH >= 1 && WIDTH <= 8, "one code per byte");
    uint64_t x = packed;
    if (WIDTH < 8) {
        x &= (uint64_t{1} << (8 * WIDTH & 63)) - 1u;
        x = (x | x << (32 - 4 * WIDTH)) & uint64_t{0x0000000100000001u} * ((uint64_t{1} << 4 * WIDTH) - 1u);
        x = (x | x << (16 - 2 * WIDTH)) & uint64_t{0x0001000100010001u} * ((1u << 2 * WIDTH) - 1u);
        x = (x | x << (8 - WIDTH)) & uint64_t{0x0101010101010101u} * ((1u << WIDTH) - 1u);
    }
    return x;
}

// Four codes of 9 to 16 bits, one per half word of `codes`, squeezed into the low 4 WIDTH bits.
template <int WIDTH>
COMPLL_FN uint64_t pack_halves(uint64_t codes) {
    static_assert(WIDTH > 8 && WIDTH <= 16, "one code per half word");
    uint64_t x = codes;
    if (WIDTH < 16) {
        x = (x | x >> (16 - WIDTH)) & uint64_t{0x0000000100000001u} * ((uint64_t{1} << 2 * WIDTH) - 1u);
        x = (x | x >> (32 - 2 * WIDTH)) & ((uint64_t{1} << (4 * WIDTH & 63)) - 1u);
    }
    return x;
}

// The inverse; bits from 4 WIDTH on are ignored.
template <int WIDTH>
COMPLL_FN uint64_t unpack_halves(uint64_t packed) {
    static_assert(WIDTH > 8 && WIDTH <= 16, "one code per half word");
    uint64_t x = packed;
    if (WIDTH < 16) {
        x &= (uint64_t{1} << (4 * WIDTH & 63)) - 1u;
        x = (x | x << (32 - 2 * WIDTH)) & uint64_t{0x0000000100000001u} * ((uint64_t{1} << 2 * WIDTH) - 1u);
        x = (x | x << (16 - WIDTH)) & uint64_t{0x0001000100010001u} * ((1u << WIDTH) - 1u);
    }
    return x;
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
