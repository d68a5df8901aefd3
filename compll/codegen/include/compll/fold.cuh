// Reductions by the tree of numerics.md: 64 lanes a chunk, lanes folded by halves, chunk results folded again.
#pragma once

#include <compll/combine.cuh>

namespace compll {

template <class T>
__device__ inline T shuffle_down(T mine, unsigned by) { return __shfl_down_sync(ALL_LANES, mine, by); }
__device__ inline bool shuffle_down(bool mine, unsigned by) { return __shfl_down_sync(ALL_LANES, int(mine), by) != 0; }
template <class Order>
__device__ inline Extreme<Order> shuffle_down(Extreme<Order> mine, unsigned by) {
    return Extreme<Order>{shuffle_down(mine.rank, by), shuffle_down(mine.position, by), shuffle_down(mine.count, by)};
}
__device__ inline MomentsState shuffle_down(MomentsState mine, unsigned by) {
    return MomentsState{shuffle_down(mine.count, by), shuffle_down(mine.mean, by), shuffle_down(mine.m2, by)};
}

// Folds the 64 lanes of every group; the result is right in lane 0 of the group. For the whole block to call.
template <class Op>
__device__ typename Op::State fold_lanes(typename Op::State mine, const Op& op) {
    __shared__ typename Op::State upper[GROUPS][32];
    const unsigned lane = lane_of_chunk();
    const unsigned group = group_of_block();
    __syncthreads();
    if (lane >= 32) upper[group][lane - 32] = mine;
    __syncthreads();
    if (lane < 32) {
        mine = op.combine(mine, upper[group][lane]);
        for (unsigned half = 16; half > 0; half /= 2) mine = op.combine(mine, shuffle_down(mine, half));
    }
    return mine;
}

// Folds the lanes of this block's chunks into `partials`, one for each chunk of the space.
template <class Op>
__device__ void fold_chunk(typename Op::State mine, typename Op::State* partials, const Tile& tile, index_t extent,
                           const Op& op) {
    mine = fold_lanes(mine, op);
    if (lane_of_chunk() == 0 && chunk_of(tile) < chunks_of(extent)) partials[chunk_of(tile)] = mine;
}

// Folds the chunk results of a whole space in place and returns the one that is left, to every thread of the block.
template <class Op>
__device__ typename Op::State fold_partials(typename Op::State* partials, index_t extent, const Op& op) {
    if (extent == 0) return op.identity();
    index_t count = chunks_of(extent);
    while (count > 1) {
        const index_t above = chunks_of(count);
        for (index_t first = 0; first < above; first += GROUPS) {
            const index_t chunk = first + group_of_block();
            typename Op::State mine = op.identity();
            for (index_t at = chunk * CHUNK + lane_of_chunk(); at < count && at < (chunk + 1) * CHUNK; at += LANES) {
                mine = op.combine(mine, partials[at]);
            }
            mine = fold_lanes(mine, op);  // its barriers part the reads above from the write below
            if (lane_of_chunk() == 0 && chunk < above) partials[chunk] = mine;
        }
        __syncthreads();
        count = above;
    }
    return partials[0];
}

}  // namespace compll
