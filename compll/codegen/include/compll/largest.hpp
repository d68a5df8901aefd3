// The k-th largest of keys that lie in the cache, by their orders (docs/numerics.md, section 6).
#pragma once

#include <limits>

#include <compll/storage.hpp>

namespace compll {

template <class K>
K lowest_key() {
    using Limits = std::numeric_limits<K>;
    return Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
}

// The `rank`-th largest (1-based) of at most FEW orders: the least of those that fewer than `rank` exceed. Counting all
// against all in vectors is quicker than any sorting, which has to guess at every step.
constexpr int64_t FEW = 64;
constexpr int64_t SIDE_BY_SIDE = 16;

template <class Order>
Order nth_largest_of_few(const Order* orders, int64_t rank, int64_t count) {
    Order padded[FEW] = {};  // nothing is exceeded by zeros
    std::copy_n(orders, count, padded);
    Order found = std::numeric_limits<Order>::max();
    for (int64_t j = 0; j < count; j++) {
        const Order own = padded[j];
        Order above = 0;
        for (int64_t first = 0; first < count; first += SIDE_BY_SIDE) {
            #pragma omp simd reduction(+ : above)
            for (int64_t i = 0; i < SIDE_BY_SIDE; i++) above += padded[first + i] > own;
        }
        if (int64_t(above) < rank) found = std::min(found, own);
    }
    return found;
}

// The `rank`-th largest (1-based) of `count` orders, which it overwrites. By counting: the bin of their range that holds
// it is found, and only the members of that bin stay, until few are left.
template <class Order>
Order nth_largest(Order* orders, int64_t rank, int64_t count) {
    constexpr int64_t FEW_BINS_UP_TO = 4096;
    constexpr int BITS = 11;
    while (count > FEW) {
        Order low = orders[0];
        Order high = orders[0];
        for (int64_t j = 0; j < count; j++) {
            low = std::min(low, orders[j]);
            high = std::max(high, orders[j]);
        }
        if (low == high) return low;
        const int bits = count < FEW_BINS_UP_TO ? 8 : BITS;
        const int shift = std::max(0, 64 - __builtin_clzll(uint64_t(high - low)) - bits);
        uint32_t bins[1 << BITS];
        std::fill_n(bins, 1 << bits, 0u);
        for (int64_t j = 0; j < count; j++) bins[(orders[j] - low) >> shift]++;
        Order bin = Order(high - low) >> shift;
        for (; bins[bin] < rank; bin--) rank -= bins[bin];
        int64_t members = 0;
        for (int64_t j = 0; j < count; j++) {
            orders[members] = orders[j];
            members += (orders[j] - low) >> shift == bin;
        }
        count = members;
    }
    return nth_largest_of_few(orders, rank, count);
}

// The `rank`-th largest of `count` keys (1-based), never NaN; the lowest key where there are fewer. Overwrites `orders`.
template <class K, class Order>
K threshold_of(Order* orders, int64_t count, int64_t rank) {
    if (rank > count) return lowest_key<K>();
    const K key = key_of_order<K>(nth_largest(orders, rank, count));
    return key == key ? key : std::numeric_limits<K>::infinity();
}

}  // namespace compll
