// What a merge of payloads reads from its tiles, and the division of what it has added up.
#pragma once

#include <compll/phases.cuh>

namespace compll {

constexpr unsigned MERGED = 8;  // positions of a thread whose sums a merge keeps in registers

// How many payloads a tile of a merge adds up, and whether to what is there.
__device__ inline unsigned merge_payloads(const Tile& tile) { return tile.reserved & 0x7fffffffu; }
__device__ inline bool merge_adds(const Tile& tile) { return tile.reserved >> 31 != 0; }

// How many payloads the longest row has behind its first.
__device__ inline unsigned merge_turns(const Tile* tables) { return tables[0].segment; }

// What the sum of a tile's row is divided by; it stands in the place of the tiles' count.
__device__ inline float merge_divisor(const Tile& tile) { return from_bits(tile.count); }

// A quotient; a division takes as long as decoding, so one by 1 is left out.
__device__ inline float merge_quotient(float sum, float divisor) { return divisor == 1.0f ? sum : sum / divisor; }

// Divides what is in `out`. Zeros, which are their own quotients, are not written: a sparse sum is hardly more than read.
template <class Segment>
__device__ __forceinline__ void divide_tile(const Segment& s, const Tile& tile, uint64_t*) {
    const index_t extent = index_t(s.numel);
    const float divisor = merge_divisor(tile);
    for (unsigned strip = 0; strip_is_inside(tile, strip, extent); strip += AHEAD) {
        float sums[AHEAD];
#pragma unroll
        for (unsigned next = 0; next < AHEAD; ++next) {
            const index_t i = position_of(tile, strip + next);
            sums[next] = i < extent ? s.out[i] : 0.0f;
        }
#pragma unroll
        for (unsigned next = 0; next < AHEAD; ++next) {
            if (sums[next] != 0.0f) s.out[position_of(tile, strip + next)] = canonical(sums[next] / divisor);
        }
    }
}

}  // namespace compll
