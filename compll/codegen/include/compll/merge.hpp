// Payloads of several ranks into one gradient: added up in the order of the ranks, divided once by how many there are.
#pragma once

#include <compll/runtime.hpp>

namespace compll {

// Rows of payloads: for row i `firsts[i]`, if there are any, then `others` from the end of the row before to ends[i]; the
// sum, which all of them add to, is divided by divisors[i].
template <class First, class Other>
struct Turns {
    const void* firsts;
    const void* others;
    const int64_t* ends;
    const float* divisors;

    const First* first(int64_t row) const { return firsts ? static_cast<const First*>(firsts) + row : nullptr; }
    const Other* begin(int64_t row) const { return static_cast<const Other*>(others) + (row > 0 ? ends[row - 1] : 0); }
    const Other* end(int64_t row) const { return static_cast<const Other*>(others) + ends[row]; }
    int64_t payloads(int64_t row) const { return (firsts ? 1 : 0) + (end(row) - begin(row)); }
    int64_t numel(int64_t row) const { return firsts ? first(row)->numel : begin(row)->numel; }
    float* out(int64_t row) const { return firsts ? first(row)->out : begin(row)->out; }
};

constexpr int64_t MERGED = 1024;  // elements that a merge completes before the next: 4 KiB, which stay in the nearest cache

// Divides in place; like everything that leaves a function, NaNs are 7fc00000. Zeros, too, are written: reading takes the
// time, and a branch for every line more than it saves.
inline void divide(float* sums, int64_t count, float divisor) {
#pragma omp simd
    for (int64_t i = 0; i < count; i++) sums[i] = canonical(sums[i] / divisor);
}

// run(row, threads): one row after another or side by side, as run_pieces says.
template <class First, class Other, class Run>
int run_rows(const Turns<First, Other>& turns, int64_t rows, int threads, Run&& run) {
    const auto numel = [&](int64_t row) { return turns.numel(row) * turns.payloads(row); };
    return run_pieces(rows, threads, numel, run);
}

// Whole payloads of a row in order, then the quotients: decode(segment, threads), add(segment, threads).
template <class First, class Other, class Decode, class Add>
int merge_in_turns(const Turns<First, Other>& turns, int64_t rows, int threads, Decode&& decode, Add&& add) {
    return run_rows(turns, rows, threads, [&](int64_t row, int team) {
        if (turns.firsts) decode(*turns.first(row), team);
        for (const Other* other = turns.begin(row); other != turns.end(row); other++) add(*other, team);
        const float divisor = turns.divisors[row];
        if (divisor == 1.0f) return;
        for_ranges(team, turns.numel(row), [sums = turns.out(row), divisor](int, int64_t begin, int64_t end) {
            divide(sums + begin, end - begin, divisor);
        });
    });
}

// The same piece by piece, each of which stays in the nearest cache until it is complete: decode(segment, begin, end) and
// add(segment, begin, end) walk these elements only.
template <class First, class Other, class Decode, class Add>
int merge_by_pieces(const Turns<First, Other>& turns, int64_t rows, int threads, Decode&& decode, Add&& add) {
    return run_rows(turns, rows, threads, [&](int64_t row, int team) {
        const float divisor = turns.divisors[row];
        for_ranges(team, turns.numel(row), [&](int, int64_t begin, int64_t end) {
            for (int64_t piece = begin; piece < end; piece += MERGED) {
                const int64_t stop = std::min(piece + MERGED, end);
                if (turns.firsts) decode(*turns.first(row), piece, stop);
                for (const Other* other = turns.begin(row); other != turns.end(row); other++) add(*other, piece, stop);
                if (divisor != 1.0f) divide(turns.out(row) + piece, stop - piece, divisor);
            }
        });
    });
}

}  // namespace compll
