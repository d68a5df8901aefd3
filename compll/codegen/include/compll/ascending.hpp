// Elias-Fano sections (Vigna, WSDM'13; compll/codegen/layout.py): low bits packed, then one bit vector per row.
#pragma once

#include <cstring>

#include <compll/pack.h>
#include <compll/runtime.hpp>

namespace compll {

struct Ascending {
    uint8_t* section;
    int64_t rows;
    int64_t k;
    int64_t extent;
    int64_t low_bits;
    int64_t low_bytes;

    int64_t high_bytes() const { return (k + (extent >> low_bits) + 1 + 7) / 8; }
    uint8_t* high(int64_t row) const { return section + low_bytes + row * high_bytes(); }
};

// The low bits of index i are bits [i * width, (i + 1) * width).
inline void write_low_bits(const uint32_t* index, int64_t count, const Ascending& a) {
    uint64_t word = 0;
    int filled = 0;
    uint8_t* out = a.section;
    const uint32_t mask = uint32_t((uint64_t{1} << a.low_bits) - 1u);
    for (int64_t i = 0; i < count; i++) {
        word |= uint64_t(uint32_t(std::min<int64_t>(index[i], a.extent)) & mask) << filled;
        for (filled += int(a.low_bits); filled >= 8; filled -= 8) {
            *out++ = uint8_t(word);
            word >>= 8;
        }
    }
    if (filled > 0) *out = uint8_t(word);
}

// The first `count` indices (of every row) into a section that is zero.
inline void encode_ascending(const uint32_t* index, int64_t count, const Ascending& a) {
    if (a.low_bits > 0) write_low_bits(index, count < a.k ? count : a.rows * a.k, a);
    const int64_t bits = 8 * a.high_bytes();
    for (int64_t row = 0; row < a.rows; row++) {
        uint8_t* high = a.high(row);
        for (int64_t i = 0; i < std::min(count, a.k); i++) {
            const int64_t at = (std::min<int64_t>(index[row * a.k + i], a.extent) >> a.low_bits) + i;
            if (at < bits) high[at >> 3] |= uint8_t(1u << (at & 7));
        }
    }
}

inline uint32_t low_bits_at(const Ascending& a, int64_t i) {
    const int64_t first = i * a.low_bits;
    const int64_t last = first + a.low_bits;
    uint64_t word = 0;
    std::memcpy(&word, a.section + (first >> 3), size_t(((last + 7) >> 3) - (first >> 3)));
    return uint32_t((word >> (first & 7)) & ((uint64_t{1} << a.low_bits) - 1u));
}

inline void decode_row(const Ascending& a, int64_t row, int64_t count, uint32_t* index) {
    const uint8_t* high = a.high(row);
    const int64_t bytes = a.high_bytes();
    int64_t i = 0;
    for (int64_t byte = 0; byte < bytes && i < count; byte += 8) {
        uint64_t word = 0;
        std::memcpy(&word, high + byte, size_t(std::min<int64_t>(8, bytes - byte)));
        for (; word != 0 && i < count; word &= word - 1u) {
            const uint64_t upper = uint64_t(8 * byte + __builtin_ctzll(word) - i);
            const uint64_t value = upper << a.low_bits | low_bits_at(a, row * a.k + i);
            index[i++] = uint32_t(std::min<uint64_t>(value, uint64_t(a.extent)));
        }
    }
    for (; i < count; i++) index[i] = uint32_t(a.extent);
    for (; i < a.k; i++) index[i] = 0u;
}

// Total: any bytes give indices of at most `extent`; 0 from the count on.
inline void decode_ascending(const Ascending& a, int64_t count, int threads, uint32_t* index) {
    for_rows(a.rows, a.k, threads, [&](int64_t row, int) {
        decode_row(a, row, std::min(count, a.k), index + row * a.k);
    });
}

}  // namespace compll
