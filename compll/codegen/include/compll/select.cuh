// Exact selection of the k largest keys of a space, or of the k-th largest key, by radix histograms.
//
// Keys are unsigned integers that compare as the program's keys do (order_key). The sweep marks as candidates the
// positions whose key is at least a hint, taken from a sample, and makes a histogram of the keys' first digit; the
// refining launches read the keys of candidates only. A hint that was too high leaves too few candidates: then
// `rescan` starts again with every position. Ties go to the lowest position, results are in ascending order.
#pragma once

#include <compll/mask.cuh>

namespace compll {

constexpr unsigned DIGIT = 11;  // bits of a key that one histogram resolves
constexpr unsigned BINS = 1u << DIGIT;
constexpr unsigned SAMPLES = 4096;
constexpr unsigned SAMPLED_EXTENT = 1u << 17;  // below, every position is a candidate: a second read is cheap

// The state of a selection. In scratch, zeroed.
template <class Order>
struct Selection {
    Order hint;       // candidates have keys of at least this
    Order threshold;  // the digits of the k-th largest key that are known
    unsigned arrivals;
    unsigned shift;   // of the digit resolved last
    unsigned missed;  // the hint was too high: the mask is void
    uint32_t remaining;  // how many of the k have the known digits
    uint32_t histogram[BINS];
};

template <class Order>
__device__ constexpr unsigned first_shift() {
    return 8 * sizeof(Order) - DIGIT;
}

// The shift of the next digit; the last one overlaps what is known already.
__device__ inline unsigned next_shift(unsigned shift) { return shift > DIGIT ? shift - DIGIT : 0; }

// The largest digit that at least `wanted` counted keys reach, and how many keys are above it; `found` is false, and
// digit the lowest, where there are fewer. `bins` may be shared or global. For the whole block to call.
__device__ inline unsigned find_digit(const uint32_t* bins, uint32_t wanted, uint32_t& above, bool& found) {
    constexpr unsigned EACH = BINS / THREADS;
    __shared__ unsigned digit_found;
    __shared__ uint32_t above_found;
    const unsigned highest_bin = BINS - 1 - threadIdx.x * EACH;
    uint32_t mine = 0;
    for (unsigned next = 0; next < EACH; ++next) mine += bins[highest_bin - next];
    uint32_t total;
    uint32_t before = block_prefix(mine, total);
    found = wanted <= total;
    if (before < wanted && wanted <= before + mine) {
        unsigned bin = highest_bin;
        for (; before + bins[bin] < wanted; --bin) before += bins[bin];
        digit_found = bin;
        above_found = before;
    }
    __syncthreads();
    above = found ? above_found : 0;
    return found ? digit_found : 0;
}

__device__ inline void clear_bins(uint32_t* bins) {
    for (unsigned bin = threadIdx.x; bin < BINS; bin += THREADS) bins[bin] = 0;
    __syncthreads();
}

// Adds the block's histogram to the segment's.
__device__ inline void add_bins(const uint32_t* bins, uint32_t* to) {
    __syncthreads();
    for (unsigned bin = threadIdx.x; bin < BINS; bin += THREADS) {
        if (bins[bin] != 0) atomicAdd(&to[bin], bins[bin]);
    }
}

// Settles the next digit of the threshold from the segment's histogram, which is left zero. For the whole last block.
template <class Order>
__device__ void settle_digit(Selection<Order>* selection, unsigned shift, uint32_t wanted) {
    uint32_t above;
    bool found;
    const unsigned digit = find_digit(selection->histogram, wanted, above, found);
    __syncthreads();
    clear_bins(selection->histogram);
    if (threadIdx.x > 0) return;
    selection->missed = !found;
    selection->shift = shift;
    selection->threshold |= Order(digit) << shift;
    selection->remaining = wanted - above;
}

__device__ inline uint32_t wanted_of(uint64_t k, index_t extent) { return uint32_t(k < extent ? k : extent); }

// A pseudo-random position in the `index`-th of SAMPLES equal parts of the space.
__device__ inline index_t sample_position(unsigned index, index_t extent) {
    const uint64_t from = uint64_t(index) * extent / SAMPLES;
    const uint64_t to = (uint64_t(index) + 1) * extent / SAMPLES;
    return index_t(from + (uint64_t(index * 0x9e3779b1u) * (to - from) >> 32));
}

// Sets the hint such that, very likely, somewhat more than k keys reach it. One block for each segment.
template <class Order, class Key>
__device__ void sample_keys(Selection<Order>* selection, index_t extent, uint64_t k, Key key) {
    __shared__ Order sample[SAMPLES];
    __shared__ uint32_t bins[BINS];
    const float expected = float(k) / float(extent) * SAMPLES;
    const float rank = expected + 4.0f * square_root(expected) + 8.0f;
    const bool sampled = extent >= SAMPLED_EXTENT && rank < SAMPLES;
    Order hint = 0;
    if (sampled) {
        for (unsigned at = threadIdx.x; at < SAMPLES; at += THREADS) sample[at] = key(sample_position(at, extent));
        uint32_t wanted = uint32_t(rank);
        unsigned shift = first_shift<Order>();
        for (Order known = 0;; shift = next_shift(shift)) {  // digits of the sample's threshold, highest first
            clear_bins(bins);
            for (unsigned at = threadIdx.x; at < SAMPLES; at += THREADS) {
                if ((sample[at] & known) == hint) atomicAdd(&bins[unsigned(sample[at] >> shift) % BINS], 1u);
            }
            __syncthreads();
            uint32_t above;
            bool found;
            hint |= Order(find_digit(bins, wanted, above, found)) << shift;
            wanted -= above;
            known |= Order(BINS - 1) << shift;
            __syncthreads();
            if (shift < first_shift<Order>()) break;  // two digits are enough for a hint
        }
    }
    if (threadIdx.x == 0) selection->hint = hint;
}

}  // namespace compll
