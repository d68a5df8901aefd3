// Sorting a row in place by one block: a bitonic network whose comparators all point the same way, so that positions
// beyond the end, which would hold the largest key, need no memory.
#pragma once

#include <compll/place.cuh>

namespace compll {

// Unsigned integers in the order of Sort: -0 below +0, NaN last.
__device__ inline uint32_t sort_key(float x) { return x == 0.0f && raw_bits(x) != 0 ? 0x7fffffffu : order_key(x); }
__device__ inline uint64_t sort_key(double x) {
    return x == 0.0 && raw_bits(x) != 0 ? 0x7fffffffffffffffull : order_key(x);
}
template <class T>
__device__ inline auto sort_key(T x) {
    return order_key(x);
}

template <class T>
__device__ void order_pair(T* items, index_t low, index_t high, bool descending) {
    const T left = items[low];
    const T right = items[high];
    const bool swap = descending ? sort_key(left) < sort_key(right) : sort_key(right) < sort_key(left);
    if (!swap) return;
    items[low] = right;
    items[high] = left;
}

// For the whole block to call; `items` may be global or shared.
template <class T>
__device__ void sort_row(T* items, index_t length, bool descending) {
    __syncthreads();
    for (uint64_t size = 2; size / 2 < length; size *= 2) {
        const uint64_t pairs = ((length - 1) & ~(size - 1)) / 2 + size / 2;
        for (uint64_t distance = size / 2; distance > 0; distance /= 2) {
            for (uint64_t pair = threadIdx.x; pair < pairs; pair += THREADS) {
                const uint64_t offset = pair & (distance - 1);
                const uint64_t first = (pair - offset) * 2;
                // the first step of a merge compares mirror images, the others neighbours at a distance
                const uint64_t low = first + offset;
                const uint64_t high = first + (distance == size / 2 ? 2 * distance - 1 - offset : distance + offset);
                if (high < length) order_pair(items, index_t(low), index_t(high), descending);
            }
            __syncthreads();
        }
    }
}

}  // namespace compll
