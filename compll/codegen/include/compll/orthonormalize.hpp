// Gram-Schmidt, in f64 and on one thread: the factors of compressors are narrow.
#pragma once

#include <compll/storage.hpp>

namespace compll {

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
