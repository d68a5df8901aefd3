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
    unsigned shift;   // of the digit resolved last
    unsigned dense;   // the hint was too high: the mask is void, every position is a candidate
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
    above = 0;
    found = true;
    if (wanted == 0) return BINS - 1;
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
    if (found) above = above_found;
    const unsigned digit = found ? digit_found : 0;
    __syncthreads();
    return digit;
}

// The histogram at a byte of the block's pool.
__device__ inline uint32_t* bins_of(uint64_t* pool, unsigned byte) {
    return reinterpret_cast<uint32_t*>(pool + byte / sizeof(uint64_t));
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

// Settles the digit at `shift` from the segment's histogram, which is left zero; false where too few keys were counted.
// For the whole last block.
template <class Order>
__device__ bool settle_digit(Selection<Order>* selection, unsigned shift, Order known, uint32_t wanted) {
    uint32_t above;
    bool found;
    const unsigned digit = find_digit(selection->histogram, wanted, above, found);
    clear_bins(selection->histogram);
    if (threadIdx.x == 0) {
        selection->threshold = known | Order(digit) << shift;
        selection->shift = shift;
        selection->remaining = wanted - above;
    }
    __syncthreads();
    return found;
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
__device__ void sample_keys(Selection<Order>* selection, index_t extent, uint64_t k, Key key, uint64_t* pool) {
    uint32_t* const bins = bins_of(pool, 0);
    Order* const sample = reinterpret_cast<Order*>(bins + BINS);
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
            if (shift < first_shift<Order>()) break;  // two digits are enough for a hint
        }
    }
    if (threadIdx.x == 0) selection->hint = hint;
}

// Counts the first digit of a candidate's key in the block's histogram.
template <class Order>
__device__ void count_digit(uint32_t* bins, Order key) {
    atomicAdd(&bins[unsigned(key >> first_shift<Order>())], 1u);
}

// Settles the first digit after the sweep. For the whole last block.
template <class Order>
__device__ void settle_candidates(Selection<Order>* selection, index_t extent, uint64_t k) {
    const bool found = settle_digit(selection, first_shift<Order>(), Order(0), wanted_of(k, extent));
    if (threadIdx.x == 0) selection->dense = !found;
}

// The first digit again, from every position. For launches after a sweep whose hint was too high.
template <class Order, class Key>
__device__ void rescan(Selection<Order>* selection, unsigned* arrivals, const Tile& tile, index_t extent, uint64_t k,
                       Key key, uint64_t* pool) {
    if (!selection->dense) return;
    uint32_t* const bins = bins_of(pool, 0);
    clear_bins(bins);
    for (unsigned strip = 0; strip < STRIPS; ++strip) {
        const index_t position = position_of(tile, strip);
        if (position < extent) count_digit<Order>(bins, key(position));
    }
    add_bins(bins, selection->histogram);
    if (!last_tile(arrivals, tile)) return;
    settle_digit(selection, first_shift<Order>(), Order(0), wanted_of(k, extent));
}

// The candidates among the 32 positions from `first` on, as bits.
template <class Order>
__device__ uint32_t candidates_at(const Selection<Order>& selection, const uint32_t* mask, index_t first,
                                  index_t extent) {
    if (first >= extent) return 0;
    if (!selection.dense) return mask[first / 32];
    const index_t left = extent - first;
    return left >= 32 ? ~0u : (1u << left) - 1;
}

// What a warp finds out about 32 words of candidates, for each lane about its own word.
struct Classes {
    uint32_t above;
    uint32_t equal;
};

enum class Class { below, equal, above };

// Asks `classify(position)` about every candidate of the 1024 positions in which this lane's word begins at `first`.
// Few candidates: every lane walks its own word. Many: the warp walks all words, its lanes side by side.
template <class Classify>
__device__ Classes classify_candidates(uint32_t candidates, index_t first, Classify classify) {
    Classes mine{0, 0};
    if (warp_sum(__popc(candidates)) < 256) {
        for (; candidates != 0; candidates &= candidates - 1) {
            const unsigned bit = lowest_bit(candidates);
            const Class found = classify(first + bit);
            if (found == Class::above) mine.above |= 1u << bit;
            if (found == Class::equal) mine.equal |= 1u << bit;
        }
        return mine;
    }
    const index_t warp_first = first - 32 * lane_of_warp();
    for (unsigned word = 0; word < 32; ++word) {
        const bool candidate = (__shfl_sync(ALL_LANES, candidates, word) >> lane_of_warp() & 1) != 0;
        const Class found = candidate ? classify(warp_first + 32 * word + lane_of_warp()) : Class::below;
        const uint32_t above = __ballot_sync(ALL_LANES, found == Class::above);
        const uint32_t equal = __ballot_sync(ALL_LANES, found == Class::equal);
        if (word == lane_of_warp()) mine = Classes{above, equal};
    }
    return mine;
}

// Settles the next digit of the threshold. True in the whole last block when it was the last digit.
template <class Order, class Key>
__device__ bool refine(Selection<Order>* selection, const uint32_t* mask, unsigned* arrivals, const Tile& tile,
                       index_t extent, Key key, uint64_t* pool) {
    uint32_t* const bins = bins_of(pool, 0);
    clear_bins(bins);
    const Order known = ~Order(0) << selection->shift;
    const Order threshold = selection->threshold;
    const unsigned shift = next_shift(selection->shift);
    const auto count = [&](index_t position) {
        const Order order = key(position);
        if ((order & known) == threshold) atomicAdd(&bins[unsigned(order >> shift) % BINS], 1u);
        return Class::below;
    };
    for (unsigned round = 0; round < RUN / 1024; ++round) {
        const index_t first = word_of(run_of(tile), round);
        classify_candidates(candidates_at(*selection, mask, first, extent), first, count);
    }
    add_bins(bins, selection->histogram);
    if (!last_tile(arrivals, tile)) return false;
    settle_digit(selection, shift, threshold, selection->remaining);
    return shift == 0;
}

// The candidates of a word above the settled threshold, and those equal to it.
template <class Order, class Key>
__device__ Classes compare_candidates(const Selection<Order>& selection, const uint32_t* mask, index_t first,
                                      index_t extent, Key key) {
    const auto compare = [&](index_t position) {
        const Order order = key(position);
        if (order == selection.threshold) return Class::equal;
        return order > selection.threshold ? Class::above : Class::below;
    };
    return classify_candidates(candidates_at(selection, mask, first, extent), first, compare);
}

// How many keys of every run are above the threshold and how many equal it; then, in the last block, how many before.
template <class Order, class Key>
__device__ void count_selected(const Selection<Order>& selection, const uint32_t* mask, uint32_t* above,
                               uint32_t* equal, unsigned* arrivals, const Tile& tile, index_t extent, Key key) {
    const index_t run = run_of(tile);
    uint32_t more = 0;
    uint32_t same = 0;
    for (unsigned round = 0; round < RUN / 1024; ++round) {
        const Classes classes = compare_candidates(selection, mask, word_of(run, round), extent, key);
        more += __popc(classes.above);
        same += __popc(classes.equal);
    }
    more = warp_sum(more);
    same = warp_sum(same);
    if (lane_of_warp() == 0 && run < extent) {
        above[run / RUN] = more;
        equal[run / RUN] = same;
    }
    if (!last_tile(arrivals, tile)) return;
    const index_t runs = extent == 0 ? 0 : (extent - 1) / RUN + 1;
    prefix_counts(above, runs);
    prefix_counts(equal, runs);
}

// Calls `emit(slot, position)` for every selected position of the tile, and `pad(slot)` for slots that stay empty.
template <class Order, class Key, class Emit, class Pad>
__device__ void write_selected(const Selection<Order>& selection, const uint32_t* mask, const uint32_t* above,
                               const uint32_t* equal, const Tile& tile, index_t extent, uint64_t k, Key key, Emit emit,
                               Pad pad) {
    if (tile.index == 0) {
        for (uint64_t slot = extent + threadIdx.x; slot < k; slot += THREADS) pad(uint32_t(slot));
    }
    const index_t run = run_of(tile);
    if (run >= extent || k == 0) return;
    uint32_t more = above[run / RUN];  // selected above the threshold and equal to it, before this round
    uint32_t same = equal[run / RUN];
    for (unsigned round = 0; round < RUN / 1024; ++round) {
        const index_t first = word_of(run, round);
        const Classes classes = compare_candidates(selection, mask, first, extent, key);
        uint32_t all_more;
        uint32_t all_same;
        uint32_t my_more = more + warp_prefix(__popc(classes.above), all_more);
        uint32_t my_same = same + warp_prefix(__popc(classes.equal), all_same);
        for (uint32_t left = classes.above | classes.equal; left != 0; left &= left - 1) {
            const bool is_same = (classes.equal & left & (0u - left)) != 0;
            const uint32_t ties = my_same < selection.remaining ? my_same : selection.remaining;
            if (!is_same || my_same < selection.remaining) emit(my_more + ties, first + lowest_bit(left));
            my_more += !is_same;
            my_same += is_same;
        }
        more += all_more;
        same += all_same;
    }
}

}  // namespace compll
