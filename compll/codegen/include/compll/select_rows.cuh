// Exact selection within rows, by the whole block: 8-bit digits of the keys, then an ordered write.
#pragma once

#include <compll/place.cuh>

namespace compll {

struct RowThreshold {
    uint64_t order;      // the k-th largest key
    uint32_t remaining;  // how many of the k equal it
};

// The `wanted`-th largest of the keys of a row; `wanted` is at least 1 and at most `columns`.
template <class Order, class Key>
__device__ RowThreshold row_threshold(index_t columns, uint32_t wanted, Key key) {
    __shared__ uint32_t bins[256];
    __shared__ unsigned digit;
    __shared__ uint32_t above;
    Order known = 0;
    Order threshold = 0;
    for (int shift = 8 * sizeof(Order) - 8; shift >= 0; shift -= 8) {
        bins[threadIdx.x] = 0;
        __syncthreads();
        for (index_t column = threadIdx.x; column < columns; column += THREADS) {
            const Order order = key(column);
            if ((order & known) == threshold) atomicAdd(&bins[unsigned(order >> shift) & 255], 1u);
        }
        __syncthreads();
        const uint32_t mine = bins[255 - threadIdx.x];
        uint32_t total;
        const uint32_t before = block_prefix(mine, total);
        if (before < wanted && wanted <= before + mine) {
            digit = 255 - threadIdx.x;
            above = before;
        }
        __syncthreads();
        threshold |= Order(digit) << shift;
        known |= Order(255) << shift;
        wanted -= above;
        __syncthreads();
    }
    return RowThreshold{threshold, wanted};
}

// The k-th largest key of a row, k clamped to 1 .. columns; 0 of an empty row.
template <class T, class Key>
__device__ T row_kth(index_t columns, uint64_t k, Key key) {
    if (columns == 0) return T(0);
    using Order = decltype(order_key(T()));
    const uint64_t wanted = k < columns ? at_least_one(k) : columns;
    return key_of_order<T>(Order(row_threshold<Order>(columns, uint32_t(wanted), key).order));
}

// Calls `emit(slot, column)` for the k selected columns in ascending order, and `pad(slot)` for slots that stay empty.
template <class Order, class Key, class Emit, class Pad>
__device__ void select_row(index_t columns, uint64_t k, Key key, Emit emit, Pad pad) {
    const uint32_t wanted = uint32_t(k < columns ? k : columns);
    for (uint64_t slot = wanted + threadIdx.x; slot < k; slot += THREADS) pad(uint32_t(slot));
    if (wanted == 0) return;
    const RowThreshold threshold = row_threshold<Order>(columns, wanted, key);
    uint32_t more = 0;  // selected above the threshold and equal to it, before these columns
    uint32_t same = 0;
    for (index_t first = 0; first < columns; first += THREADS) {
        const index_t column = first + threadIdx.x;
        const Order order = column < columns ? key(column) : Order(0);
        const bool is_more = column < columns && order > threshold.order;
        const bool is_same = column < columns && order == threshold.order;
        uint32_t total;  // two counts of at most 256 in one word
        const uint32_t before = block_prefix(uint32_t(is_more) << 16 | uint32_t(is_same), total);
        const uint32_t ties = same + (before & 0xffffu);
        const uint32_t taken = ties < threshold.remaining ? ties : threshold.remaining;
        if (is_more || (is_same && ties < threshold.remaining)) emit(more + (before >> 16) + taken, column);
        more += total >> 16;
        same += total & 0xffffu;
    }
}

}  // namespace compll
