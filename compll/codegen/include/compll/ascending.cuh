// Elias-Fano sections (numerics.md, section 8): low bits packed, high parts in unary, for one row or several.
#pragma once

#include <compll/mask.cuh>
#include <compll/payload.cuh>

namespace compll {

// The geometry of a section: `rows` of `k` indices below `extent`, `low_bits` of each in the first `low_bytes`.
struct Ascending {
    uint64_t rows;
    uint64_t k;
    uint64_t extent;
    unsigned low_bits;
    uint64_t low_bytes;
    uint64_t row_bytes;  // of the bit vector of a row
};

__device__ inline uint64_t row_bytes_of(uint64_t k, uint64_t extent, unsigned low_bits) {
    return (k + (extent >> low_bits) + 1 + 7) / 8;
}

__device__ inline void set_bits(uint32_t* words, uint64_t at, uint64_t value) {
    const uint64_t shifted = value << (at & 31);  // at most 32 bits of value
    if (uint32_t(shifted) != 0) atomicOr(&words[at >> 5], uint32_t(shifted));
    if (shifted >> 32 != 0) atomicOr(&words[(at >> 5) + 1], uint32_t(shifted >> 32));
}

// Writes index `at` of row `row`; the section is zero before.
__device__ inline void encode_ascending(uint8_t* section, const Ascending& shape, uint64_t row, uint64_t at,
                                        uint32_t index) {
    const uint64_t value = index < shape.extent ? index : shape.extent;
    const uint64_t low = value & ((uint64_t(1) << shape.low_bits) - 1);
    set_bits(words_of(section), (row * shape.k + at) * shape.low_bits, low);
    const uint64_t high_bit = (shape.low_bytes + row * shape.row_bytes) * 8 + (value >> shape.low_bits) + at;
    set_bits(words_of(section), high_bit, 1);
}

// Up to 32 bits of the section from bit `at` on, `count` of them; reads no word that holds none of them.
__device__ inline uint32_t get_bits(const uint8_t* section, uint64_t at, unsigned count) {
    if (count == 0) return 0;
    const unsigned shift = at & 31;
    uint64_t bits = words_of(section)[at >> 5];
    if (shift + count > 32) bits |= uint64_t(words_of(section)[(at >> 5) + 1]) << 32;
    return uint32_t(bits >> shift) & (count < 32 ? (1u << count) - 1 : ~0u);
}

// Word `word` of the bit vector of a row.
__device__ inline uint32_t high_word(const uint8_t* section, const Ascending& shape, uint64_t row, uint64_t word) {
    const uint64_t bits = shape.row_bytes * 8;
    if (word * 32 >= bits) return 0;
    const uint64_t left = bits - word * 32;
    return get_bits(section, (shape.low_bytes + row * shape.row_bytes) * 8 + word * 32, left < 32 ? left : 32);
}

// Calls `emit(at, index)` for the set bits of one word, the first of which is the `at`-th of the row.
template <class Emit>
__device__ void decode_word(const uint8_t* section, const Ascending& shape, uint64_t row, uint64_t word, uint64_t at,
                            uint64_t count, Emit emit) {
    for (uint32_t left = high_word(section, shape, row, word); left != 0 && at < count; left &= left - 1, ++at) {
        const uint64_t high = word * 32 + lowest_bit(left) - at;
        const uint64_t low = get_bits(section, (row * shape.k + at) * shape.low_bits, shape.low_bits);
        const uint64_t index = high << shape.low_bits | low;
        emit(at, uint32_t(index < shape.extent ? index : shape.extent));
    }
}

// Counts the set bits of the 256 words of a tile of a section of one row; in the last block, those before each tile.
__device__ inline void count_ascending(const uint8_t* section, const Ascending& shape, uint32_t* counts,
                                       unsigned* arrivals, const Tile& tile) {
    uint32_t total;
    block_prefix(__popc(high_word(section, shape, 0, uint64_t(tile.index) * THREADS + threadIdx.x)), total);
    if (threadIdx.x == 0) counts[tile.index] = total;
    if (!last_tile(arrivals, tile)) return;
    total = prefix_counts(counts, tile.count);
    if (threadIdx.x == 0) counts[tile.count] = total;
}

// The `count` indices of a section of one row: each tile those of its words; what has no bit is the extent.
template <class Emit>
__device__ void decode_ascending(const uint8_t* section, const Ascending& shape, const uint32_t* counts,
                                 const Tile& tile, uint64_t count, Emit emit) {
    const uint64_t word = uint64_t(tile.index) * THREADS + threadIdx.x;
    uint32_t total;
    const uint32_t before = block_prefix(__popc(high_word(section, shape, 0, word)), total);
    decode_word(section, shape, 0, word, counts[tile.index] + before, count, emit);
    const uint64_t stride = uint64_t(tile.count) * THREADS;
    for (uint64_t at = counts[tile.count] + word; at < count; at += stride) emit(at, uint32_t(shape.extent));
}

// The `count` indices of one row of several, by the whole block.
template <class Emit>
__device__ void decode_ascending_row(const uint8_t* section, const Ascending& shape, uint64_t row, uint64_t count,
                                     Emit emit) {
    uint64_t at = 0;
    for (uint64_t first = 0; first * 32 < shape.row_bytes * 8; first += THREADS) {
        const uint64_t word = first + threadIdx.x;
        uint32_t total;
        const uint32_t before = block_prefix(__popc(high_word(section, shape, row, word)), total);
        decode_word(section, shape, row, word, at + before, count, emit);
        at += total;
    }
    for (at += threadIdx.x; at < count; at += THREADS) emit(at, uint32_t(shape.extent));
}

}  // namespace compll
