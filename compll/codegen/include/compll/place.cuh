// Where a block works: tiles of segments, chunks of tiles, and what the threads of a block do together.
//
// A launch covers a batch of segments. The host lists its tiles (struct Tile) in the order of the blocks; a tile is
// four chunks of 4096 positions, each walked by 64 threads: the chunks and lanes of the reduction tree (numerics.md).
#pragma once

#include <compll/scalar.h>

#ifdef COMPLL_WIDE
typedef unsigned long long index_t;  // positions in a gradient of 2^31 elements or more
#else
typedef unsigned index_t;  // positions in a gradient
#endif

namespace compll {

constexpr unsigned THREADS = 256;  // of every block
constexpr unsigned WARPS = THREADS / 32;
constexpr unsigned LANES = STRIP;  // of a chunk
constexpr unsigned STRIPS = CHUNK / STRIP;  // of a chunk: each is one position of every lane
constexpr unsigned GROUPS = THREADS / LANES;  // groups of 64 threads, one for each chunk of a tile
constexpr unsigned TILE = GROUPS * CHUNK;
constexpr unsigned AHEAD = 4;  // strips whose elements are loaded together, to keep the memory busy
constexpr unsigned RUN = TILE / WARPS;  // consecutive positions that one warp walks where order matters
constexpr unsigned ALL_LANES = 0xffffffffu;  // of a warp

// Tile `index` of the `count` tiles of a segment; `segment` is its place in the batch.
struct Tile {
    unsigned segment;
    unsigned index;
    unsigned count;
    unsigned reserved;
};

__device__ inline unsigned lane_of_chunk() { return threadIdx.x % LANES; }
__device__ inline unsigned group_of_block() { return threadIdx.x / LANES; }
__device__ inline unsigned lane_of_warp() { return threadIdx.x % 32; }
__device__ inline unsigned warp_of_block() { return threadIdx.x / 32; }

// The chunk of the space that this thread's group walks.
__device__ inline index_t chunk_of(const Tile& tile) { return index_t(tile.index) * GROUPS + group_of_block(); }

// The position of this thread in a strip of its chunk.
__device__ inline index_t position_of(const Tile& tile, unsigned strip) {
    return chunk_of(tile) * CHUNK + strip * LANES + lane_of_chunk();
}

// Whether a strip of this group's chunk has a position in the space.
__device__ inline bool strip_is_inside(const Tile& tile, unsigned strip, index_t extent) {
    return strip < STRIPS && chunk_of(tile) * CHUNK + strip * LANES < extent;
}

// The first of the RUN consecutive positions of this thread's warp.
__device__ inline index_t run_of(const Tile& tile) { return index_t(tile.index) * TILE + warp_of_block() * RUN; }

// How many chunks a space has; an empty one has one, so that its reductions have a result.
__device__ inline index_t chunks_of(index_t extent) { return extent == 0 ? 1 : (extent - 1) / CHUNK + 1; }

__device__ inline uint64_t at_least_one(uint64_t k) { return k > 0 ? k : 1; }

// True, for the whole block, in the block that is the last of its segment to call this; what the other blocks wrote
// before their calls is visible to it. `arrivals` is zero before the first call and zero again after the last.
__device__ inline bool last_tile(unsigned* arrivals, const Tile& tile) {
    __shared__ bool last;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        last = atomicAdd(arrivals, 1u) + 1 == tile.count;
        __threadfence();
        if (last) *arrivals = 0;
    }
    __syncthreads();
    return last;
}

// Exclusive prefix sum over the lanes of a warp; `total` is the sum of all.
__device__ inline uint32_t warp_prefix(uint32_t mine, uint32_t& total) {
    uint32_t inclusive = mine;
    for (unsigned step = 1; step < 32; step *= 2) {
        const uint32_t before = __shfl_up_sync(ALL_LANES, inclusive, step);
        if (lane_of_warp() >= step) inclusive += before;
    }
    total = __shfl_sync(ALL_LANES, inclusive, 31);
    return inclusive - mine;
}

__device__ inline unsigned warp_sum(unsigned mine) {
    for (unsigned half = 16; half > 0; half /= 2) mine += __shfl_xor_sync(ALL_LANES, mine, half);
    return mine;
}

// Exclusive prefix sum over the threads of the block; `total` is the sum of all. For the whole block to call.
__device__ inline unsigned block_prefix(unsigned mine, unsigned& total) {
    __shared__ unsigned of_warp[WARPS];
    unsigned sum;
    const unsigned in_warp = warp_prefix(mine, sum);
    __syncthreads();
    if (lane_of_warp() == 0) of_warp[warp_of_block()] = sum;
    __syncthreads();
    unsigned before = 0;
    total = 0;
    for (unsigned warp = 0; warp < WARPS; ++warp) {
        if (warp < warp_of_block()) before += of_warp[warp];
        total += of_warp[warp];
    }
    return before + in_warp;
}

// Turns counts into their exclusive prefix sums, in place, and returns their sum. For the whole block to call.
__device__ inline unsigned prefix_counts(unsigned* counts, index_t length) {
    unsigned carry = 0;
    for (index_t first = 0; first < length; first += THREADS) {
        const index_t at = first + threadIdx.x;
        unsigned total;
        const unsigned before = block_prefix(at < length ? counts[at] : 0, total);
        if (at < length) counts[at] = carry + before;
        carry += total;
    }
    __syncthreads();
    return carry;
}

}  // namespace compll
