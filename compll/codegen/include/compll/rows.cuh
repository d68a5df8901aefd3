// Rows: a tile is four of them. Narrow rows (one chunk) are walked side by side, a group of 64 threads each; wide ones
// one after the other, four chunks at a time.
#pragma once

#include <compll/fold.cuh>

namespace compll {

// How the rows of a space are walked.
struct Rows {
    index_t rows;
    index_t columns;
    bool narrow;

    __device__ unsigned turns() const { return narrow ? 1 : GROUPS; }
    __device__ index_t row(const Tile& tile, unsigned turn) const {
        return index_t(tile.index) * GROUPS + (narrow ? group_of_block() : turn);
    }
    // The thread that stores a row's results.
    __device__ bool leads() const { return (narrow ? lane_of_chunk() : threadIdx.x) == 0; }
    // Whether a strip of this group's chunk has a column of the row.
    __device__ bool strip_is_inside(index_t first, unsigned strip) const {
        return strip < STRIPS && column(first, strip) - lane_of_chunk() < columns;
    }
    // This thread's column in the pass that begins at `first`.
    __device__ index_t column(index_t first, unsigned strip) const {
        return first + (narrow ? 0 : group_of_block() * CHUNK) + strip * LANES + lane_of_chunk();
    }
};

// The reduction of one row: chunk results are taken by the lanes of the next level as they come, three levels deep.
// All methods are for the whole block to call.
template <class Op>
struct RowFold {
    using State = typename Op::State;
    State result;
    State second;  // this lane of the level above the chunks, in group 0
    State third;

    Op op;

    __device__ explicit RowFold(const Op& op)
        : result(op.identity()), second(op.identity()), third(op.identity()), op(op) {}

    // Takes the lanes of the chunks of the pass that begins at column `first`.
    __device__ void take(State mine, const Rows& rows, index_t first) {
        mine = fold_lanes(mine, op);
        if (rows.columns <= CHUNK) {
            if (rows.narrow || group_of_block() == 0) result = mine;
            return;
        }
        __shared__ State of_chunk[GROUPS];
        if (lane_of_chunk() == 0) of_chunk[group_of_block()] = mine;
        __syncthreads();
        for (unsigned next = 0; next < GROUPS && first + next * CHUNK < rows.columns; ++next) {
            const index_t chunk = first / CHUNK + next;
            if (chunk % LANES == lane_of_chunk()) second = op.combine(second, of_chunk[next]);
            if (chunk % CHUNK == CHUNK - 1) close(chunk / CHUNK);
        }
    }

    // The row's result, in lane 0 of its group (of group 0 for a wide row).
    __device__ State finish(const Rows& rows) {
        if (rows.columns == 0) return op.identity();
        if (rows.columns <= CHUNK) return result;
        const index_t chunks = chunks_of(rows.columns);
        if (chunks <= CHUNK) return fold_lanes(second, op);
        if (chunks % CHUNK != 0) close(chunks / CHUNK);
        return fold_lanes(third, op);
    }

    // Folds the second level and hands its result to the lane of the third that takes the `index`-th.
    __device__ void close(index_t index) {
        __shared__ State closed;
        const State mine = fold_lanes(second, op);
        if (threadIdx.x == 0) closed = mine;
        __syncthreads();
        if (index % LANES == lane_of_chunk()) third = op.combine(third, closed);
        second = op.identity();
    }
};

template <class Op>
__device__ inline RowFold<Op> row_fold(const Op& op) {
    return RowFold<Op>(op);
}

}  // namespace compll
