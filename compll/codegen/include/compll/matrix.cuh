// Gram-Schmidt over the columns of a tall matrix, by one block. Not bit-exact between backends (numerics.md).
#pragma once

#include <compll/place.cuh>

namespace compll {

// The sum over the block, in every thread.
__device__ inline float block_sum(float mine) {
    __shared__ float of_warp[WARPS];
    for (unsigned half = 16; half > 0; half /= 2) mine += __shfl_xor_sync(ALL_LANES, mine, half);
    __syncthreads();
    if (lane_of_warp() == 0) of_warp[warp_of_block()] = mine;
    __syncthreads();
    float sum = 0.0f;
    for (unsigned warp = 0; warp < WARPS; ++warp) sum += of_warp[warp];
    return sum;
}

__device__ inline float column_product(const float* matrix, index_t rows, index_t columns, index_t a, index_t b) {
    float sum = 0.0f;
    for (index_t row = threadIdx.x; row < rows; row += THREADS) {
        sum += matrix[row * columns + a] * matrix[row * columns + b];
    }
    return block_sum(sum);
}

// In place: two projections on the columns before, then length 1, or 0 where little is left.
__device__ inline void orthonormalize(float* matrix, index_t rows, index_t columns) {
    for (index_t column = 0; column < columns; ++column) {
        const float before = square_root(column_product(matrix, rows, columns, column, column));
        for (unsigned projection = 0; projection < 2; ++projection) {
            for (index_t earlier = 0; earlier < column; ++earlier) {
                const float along = column_product(matrix, rows, columns, earlier, column);
                for (index_t row = threadIdx.x; row < rows; row += THREADS) {
                    matrix[row * columns + column] -= along * matrix[row * columns + earlier];
                }
            }
        }
        const float length = square_root(column_product(matrix, rows, columns, column, column));
        const bool kept = length > before * 0x1p-10f;
        for (index_t row = threadIdx.x; row < rows; row += THREADS) {
            matrix[row * columns + column] = kept ? matrix[row * columns + column] / length : 0.0f;
        }
    }
}

}  // namespace compll
