// What is no sweep: sort, transpose, matrix product, Gram-Schmidt. Plain blocked loops, whose results do not depend on
// the number of threads.
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

// --- matrices ----------------------------------------------------------------------------------------------------------

template <class T>
void transpose(const T* source, int64_t rows, int64_t cols, int threads, T* result) {
    constexpr int64_t TILE = 32;
    const int64_t tiles = (rows + TILE - 1) / TILE;
    const int workers = rows * cols < SMALL ? 1 : threads;
    parallel(workers, [&](int worker) {
        for (int64_t tile = worker; tile < tiles; tile += workers) {
            const int64_t end = std::min(rows, (tile + 1) * TILE);
            for (int64_t c0 = 0; c0 < cols; c0 += TILE) {
                for (int64_t c = c0; c < std::min(cols, c0 + TILE); c++) {
                    for (int64_t r = tile * TILE; r < end; r++) result[c * rows + r] = source[r * cols + c];
                }
            }
        }
    });
}

// The element (i, j) of a matrix is at i * down + j * across.
struct Strides {
    int64_t down;
    int64_t across;
};

// result [m, n] = left [m, inner] @ right [inner, n]; blocks of rows stay in the cache while `inner` goes by.
inline void multiply(const float* left, Strides l, const float* right, Strides r, int64_t m, int64_t inner, int64_t n,
                     int threads, float* result) {
    constexpr int64_t ROWS = 64;
    const int64_t blocks = (m + ROWS - 1) / ROWS;
    const int workers = m * inner * n < 8 * SMALL ? 1 : int(std::min<int64_t>(threads, blocks));
    parallel(workers, [&](int worker) {
        for (int64_t block = blocks * worker / workers; block < blocks * (worker + 1) / workers; block++) {
            const int64_t end = std::min(m, (block + 1) * ROWS);
            std::fill(result + block * ROWS * n, result + end * n, 0.0f);
            for (int64_t k0 = 0; k0 < inner; k0 += ROWS) {
                for (int64_t i = block * ROWS; i < end; i++) {
                    float* out = result + i * n;
                    for (int64_t k = k0; k < std::min(inner, k0 + ROWS); k++) {
                        const float x = left[i * l.down + k * l.across];
                        for (int64_t j = 0; j < n; j++) out[j] += x * right[k * r.down + j * r.across];
                    }
                }
            }
        }
    });
}

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
