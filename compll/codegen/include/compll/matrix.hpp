// Matrix products and what goes with them. Factors of low rank are what compressors have: a product is shaped after the
// large matrix, which is read or written once, row by row. Results do not depend on the number of threads.
#pragma once

#include <compll/storage.hpp>

namespace compll {

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

// The element (i, j) of a matrix is at i * down + j * across; one of the two is 1.
struct Strides {
    int64_t down;
    int64_t across;
    Strides turned() const { return {across, down}; }
};

// Columns of a result that fit into registers, and rows of one that stay in the cache.
constexpr int64_t NARROW = 16;
constexpr int64_t PANEL = 512;
constexpr int64_t DEPTH = 16;

typedef float f32_lanes __attribute__((vector_size(64)));
constexpr int64_t F32_LANES = 16;

// A matrix [rows, cols] row by row: itself or, turned, in `memory`.
inline const float* by_rows(const float* source, Strides s, int64_t rows, int64_t cols, int threads,
                            std::vector<float>& memory) {
    if (s.across == 1) return source;
    memory.resize(size_t(rows * cols));
    transpose(source, cols, rows, threads, memory.data());
    return memory.data();
}

// out[j] = row . columns[j], for N columns one after the other in memory.
template <int N>
void dots(const float* row, const float* columns, int64_t length, float* out) {
    f32_lanes sums[N] = {};
    int64_t k = 0;
    for (f32_lanes x, y; k + F32_LANES <= length; k += F32_LANES) {
        std::memcpy(&x, row + k, sizeof x);
        for (int j = 0; j < N; j++) {
            std::memcpy(&y, columns + j * length + k, sizeof y);
            sums[j] += x * y;
        }
    }
    for (int j = 0; j < N; j++) {
        float sum = 0.0f;
        for (int64_t lane = 0; lane < F32_LANES; lane++) sum += sums[j][lane];
        for (int64_t rest = k; rest < length; rest++) sum += row[rest] * columns[j * length + rest];
        out[j] = sum;
    }
}

// out[i] += x[0] * rows[0][i] + x[1] * rows[1][i] + ..., `depth` of them.
inline void add_scaled(const float* x, int64_t x_step, const float* rows, int64_t row_step, int64_t depth,
                       int64_t length, float* out) {
    int64_t k = 0;
    for (; k + 4 <= depth; k += 4) {
        const float *a = rows + k * row_step, *b = a + row_step, *c = b + row_step, *d = c + row_step;
        const float p = x[k * x_step], q = x[(k + 1) * x_step], r = x[(k + 2) * x_step], s = x[(k + 3) * x_step];
        #pragma omp simd
        for (int64_t i = 0; i < length; i++) out[i] = out[i] + p * a[i] + q * b[i] + r * c[i] + s * d[i];
    }
    for (; k < depth; k++) {
        const float* a = rows + k * row_step;
        const float p = x[k * x_step];
        #pragma omp simd
        for (int64_t i = 0; i < length; i++) out[i] += p * a[i];
    }
}

// left [m, inner] by rows, right [inner, n] by columns, n narrow: rows [begin, end) of the result.
inline void narrow_rows(const float* left, int64_t stride, const float* columns, int64_t inner, int64_t n,
                        int64_t begin, int64_t end, float* result) {
    for (int64_t i = begin; i < end; i++) {
        for (int64_t j = 0; j < n; j += 4) {
            const float *row = left + i * stride, *first = columns + j * inner;
            float* out = result + i * n + j;
            switch (std::min<int64_t>(4, n - j)) {
                case 4: dots<4>(row, first, inner, out); break;
                case 3: dots<3>(row, first, inner, out); break;
                case 2: dots<2>(row, first, inner, out); break;
                default: dots<1>(row, first, inner, out);
            }
        }
    }
}

// left [m, inner] by columns, n narrow: the rows [begin, end) of the result, at most PANEL.
inline void narrow_panel(const float* left, int64_t stride, const float* right, Strides r, int64_t inner, int64_t n,
                         int64_t begin, int64_t end, float* result) {
    float sums[NARROW][PANEL] = {};
    for (int64_t k = 0; k < inner; k += DEPTH) {
        const int64_t depth = std::min(DEPTH, inner - k);
        for (int64_t j = 0; j < n; j++) {
            const float* x = right + k * r.down + j * r.across;
            add_scaled(x, r.down, left + begin + k * stride, stride, depth, end - begin, sums[j]);
        }
    }
    for (int64_t i = begin; i < end; i++) {
        for (int64_t j = 0; j < n; j++) result[i * n + j] = sums[j][i - begin];
    }
}

// right [inner, n] by rows: the rows [begin, end) of the result, which stay in the cache while `inner` goes by.
inline void wide_rows(const float* left, Strides l, const float* right, int64_t inner, int64_t n, int64_t begin,
                      int64_t end, float* result) {
    std::fill(result + begin * n, result + end * n, 0.0f);
    for (int64_t k = 0; k < inner; k += DEPTH) {
        for (int64_t i = begin; i < end; i++) {
            const float* x = left + i * l.down + k * l.across;
            add_scaled(x, l.across, right + k * n, n, std::min(DEPTH, inner - k), n, result + i * n);
        }
    }
}

// result [m, n] = left [m, inner] @ right [inner, n].
inline void multiply(const float* left, Strides l, const float* right, Strides r, int64_t m, int64_t inner, int64_t n,
                     int threads, float* result) {
    const bool narrow = n <= NARROW, columns = narrow && l.across == 1;
    std::vector<float> memory;
    if (columns) right = by_rows(right, r.turned(), n, inner, threads, memory);
    if (!narrow) right = by_rows(right, r, inner, n, threads, memory);
    const int64_t height = narrow ? PANEL : std::max<int64_t>(1, PANEL * NARROW / n);
    const int64_t blocks = (m + height - 1) / height;
    const int workers = m * inner * n < 8 * SMALL ? 1 : int(std::min<int64_t>(threads, blocks));
    parallel(workers, [&](int worker) {
        for (int64_t block = blocks * worker / workers; block < blocks * (worker + 1) / workers; block++) {
            const int64_t begin = block * height, end = std::min(m, begin + height);
            if (columns) {
                narrow_rows(left, l.down, right, inner, n, begin, end, result);
            } else if (narrow) {
                narrow_panel(left, l.across, right, r, inner, n, begin, end, result);
            } else {
                wide_rows(left, l, right, inner, n, begin, end, result);
            }
        }
    });
}

}  // namespace compll
