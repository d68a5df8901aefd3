// One bit for every position of a space, in words of 32: what a filter or a selection has marked.
#pragma once

#include <compll/place.cuh>

namespace compll {

// Stores a warp's votes for 32 consecutive positions (the first a multiple of 32) and returns them.
__device__ inline uint32_t mark(uint32_t* mask, index_t position, index_t extent, bool vote) {
    const uint32_t votes = __ballot_sync(ALL_LANES, vote);
    if (lane_of_warp() == 0 && position < extent) mask[position / 32] = votes;
    return votes;
}

// The votes for the 32 positions from `first` on, a multiple of 32.
__device__ inline uint32_t marks_at(const uint32_t* mask, index_t first, index_t extent) {
    return first < extent ? mask[first / 32] : 0u;
}

// Where this lane's word of 32 positions begins in a warp's run, `round` being the half of the run.
__device__ inline index_t word_of(index_t run, unsigned round) { return run + 1024 * round + 32 * lane_of_warp(); }

// The position of the lowest bit that is set.
__device__ inline unsigned lowest_bit(uint32_t bits) { return 31 - leading_zeros(bits & (0u - bits)); }

// How many positions of [first, end) are marked, `first` being a multiple of 32. For a whole warp to call.
__device__ inline uint32_t count_marks(const uint32_t* mask, index_t first, index_t end) {
    uint32_t count = 0;
    for (index_t at = first + 32 * lane_of_warp(); at < end; at += 1024) {
        const index_t left = end - at;
        count += __popc(left >= 32 ? mask[at / 32] : mask[at / 32] & ((1u << left) - 1));
    }
    return warp_sum(count);
}

// Adds up what the two warps of every group counted, into `counts`, one for each chunk. For the whole block to call.
__device__ inline void count_chunk(uint32_t of_warp, uint32_t* counts, const Tile& tile, index_t extent) {
    __shared__ uint32_t of_upper[GROUPS];
    __syncthreads();
    if (lane_of_chunk() == 32) of_upper[group_of_block()] = of_warp;
    __syncthreads();
    if (lane_of_chunk() == 0 && chunk_of(tile) < chunks_of(extent)) {
        counts[chunk_of(tile)] = of_warp + of_upper[group_of_block()];
    }
}

}  // namespace compll
