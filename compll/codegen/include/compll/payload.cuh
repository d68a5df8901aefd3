// The sections of a payload on the device: codes packed by warps, codes and counts read and written by words.
//
// A payload begins at a multiple of 4 bytes and its memory is as long as its size rounded up to 4; sections begin at
// multiples of 4, so that whole words may be read and atomically set. Words are little-endian.
#pragma once

#include <compll/place.cuh>

namespace compll {

__device__ inline uint32_t* words_of(uint8_t* section) { return reinterpret_cast<uint32_t*>(section); }
__device__ inline const uint32_t* words_of(const uint8_t* section) {
    return reinterpret_cast<const uint32_t*>(section);
}

// Code `index` of a packed section.
template <unsigned WIDTH>
__device__ inline uint32_t load_packed(const uint8_t* section, index_t index) {
    const uint64_t bit = uint64_t(index) * WIDTH;
    const uint32_t* word = words_of(section) + (bit >> 5);
    const unsigned shift = bit & 31;
    uint32_t code = word[0] >> shift;
    if (32 % WIDTH != 0 && shift + WIDTH > 32) code |= word[1] << (32 - shift);
    return code & ((1u << WIDTH) - 1u);
}

// The word of the 32 codes of a warp that this lane writes, if it is one of the first WIDTH lanes.
template <unsigned WIDTH>
__device__ inline uint32_t pack_word(uint32_t code) {
    const unsigned lane = lane_of_warp();
    if constexpr (WIDTH == 1) {
        return __ballot_sync(ALL_LANES, code != 0);
    } else if constexpr (32 % WIDTH == 0) {
        constexpr unsigned CODES = 32 / WIDTH;  // of a word
        uint32_t word = code << (lane % CODES * WIDTH);
        for (unsigned step = 1; step < CODES; step *= 2) word |= __shfl_xor_sync(ALL_LANES, word, step);
        return __shfl_sync(ALL_LANES, word, lane * CODES % 32);
    } else {
        uint32_t word = 0;
        for (unsigned next = 0; next < 31 / WIDTH + 2; ++next) {  // a word overlaps at most so many codes
            const unsigned source = 32 * lane / WIDTH + next;
            const uint32_t from = __shfl_sync(ALL_LANES, code, source % 32);
            const int shift = int(source * WIDTH) - int(32 * lane);
            if (source < 32 && shift > -32 && shift < 32) word |= shift >= 0 ? from << shift : from >> -shift;
        }
        return word;
    }
}

// Stores the codes of a warp at consecutive positions, the first a multiple of 32; beyond the extent they are 0.
template <unsigned WIDTH>
__device__ inline void store_packed(uint8_t* section, index_t position, index_t extent, uint32_t code) {
    const index_t first = position - lane_of_warp();
    if (first >= extent) return;
    const uint32_t word = pack_word<WIDTH>(code);
    const uint64_t at = uint64_t(first / 32) * WIDTH + lane_of_warp();
    const uint64_t nbytes = (uint64_t(extent) * WIDTH + 7) / 8;
    if (lane_of_warp() >= WIDTH || 4 * at >= nbytes) return;
    if (4 * at + 4 <= nbytes) {
        words_of(section)[at] = word;
    } else {
        for (unsigned byte = 0; 4 * at + byte < nbytes; ++byte) section[4 * at + byte] = uint8_t(word >> (8 * byte));
    }
}

// A section begins at a multiple of 4, so an i64 is two words.
__device__ inline int64_t load_i64(const uint8_t* section, index_t index) {
    const uint32_t* words = words_of(section) + 2 * uint64_t(index);
    return int64_t(uint64_t(words[1]) << 32 | words[0]);
}

__device__ inline void store_i64(uint8_t* section, index_t index, int64_t value) {
    uint32_t* words = words_of(section) + 2 * uint64_t(index);
    words[0] = uint32_t(uint64_t(value));
    words[1] = uint32_t(uint64_t(value) >> 32);
}

__device__ inline void store_count(uint8_t* payload, unsigned offset, uint32_t count) {
    *words_of(payload + offset) = count;
}

__device__ inline uint32_t load_count(const uint8_t* payload, unsigned offset, index_t limit) {
    const uint32_t count = *words_of(payload + offset);
    return count < limit ? count : uint32_t(limit);
}

}  // namespace compll
