// What is neither sweep nor product: sort, Gram-Schmidt. Results do not depend on the number of threads.
#pragma once

#include <compll/storage.hpp>

namespace compll {

// --- sort: -inf .. -0 +0 .. inf NaN ------------------------------------------------------------------------------------

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

// --- Gram-Schmidt --------------------------------------------------------------------------------------------------------

inline double column_dot(const float* a, const float* b, int64_t rows, int64_t cols) {
    double sum = 0.0;
    for (int64_t i = 0; i < rows; i++) sum += double(a[i * cols]) * double(b[i * cols]);
    return sum;
}

// Gram-Schmidt over the columns, two projections; a column left with 2^-10 of its norm becomes zero.
inline void orthonormalize(const float* source, int64_t rows, int64_t cols, int threads, float* result) {
    if (result != source) copy(source, rows * cols, threads, result);
    for (int64_t c = 0; c < cols; c++) {
        float* column = result + c;
        const double before = square_root(column_dot(column, column, rows, cols));
        for (int64_t q = 0; q < 2 * c; q++) {
            const float* earlier = result + q % c;
            const double dot = column_dot(earlier, column, rows, cols);
            for (int64_t i = 0; i < rows; i++) {
                column[i * cols] = float(double(column[i * cols]) - double(earlier[i * cols]) * dot);
            }
        }
        const double after = square_root(column_dot(column, column, rows, cols));
        const double scale = after > before * 0x1p-10 ? 1.0 / after : 0.0;
        for (int64_t i = 0; i < rows; i++) column[i * cols] = scale == 0.0 ? 0.0f : float(column[i * cols] * scale);
    }
}

}  // namespace compll
