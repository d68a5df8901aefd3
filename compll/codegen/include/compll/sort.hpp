// Sorting: -inf .. -0 +0 .. inf NaN, or the reverse. Results do not depend on the number of threads.
#pragma once

#include <compll/storage.hpp>

namespace compll {

inline uint32_t total_order(float x) {
    const uint32_t b = raw_bits(x);
    return x != x ? 0xffffffffu : (b & 0x80000000u) != 0u ? ~b : b | 0x80000000u;
}
template <class T>
inline auto total_order(T x) {
    return order_key(x);
}

template <class T>
void sort_rows(const T* source, int64_t rows, int64_t length, bool descending, int threads, T* result) {
    for_rows(rows, length, threads, [&](int64_t row, int) {
        const T* from = source + row * length;
        T* to = result + row * length;
        if (to != from) std::copy_n(from, length, to);
        // Equal orders have equal bits, but for NaNs, so stability is no matter.
        if (descending) {
            std::sort(to, to + length, [](T a, T b) { return total_order(a) > total_order(b); });
        } else {
            std::sort(to, to + length, [](T a, T b) { return total_order(a) < total_order(b); });
        }
    });
}

}  // namespace compll
