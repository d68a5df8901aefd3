// Filter: the marked positions in ascending order, at most `limit` of them, cut cyclically (numerics.md, section 6).
//
// The sweep marks positions and counts them for each chunk; the last block of the segment turns the counts into
// offsets and decides what is cut; `write_kept` hands every kept position to its slot.
#pragma once

#include <compll/mask.cuh>

namespace compll {

// What the last block decides. In scratch, zeroed.
struct Filter {
    unsigned arrivals;
    uint32_t start_low;  // the position at which the cyclic order starts
    uint32_t start_high;
    uint32_t before;  // matches before the start
    uint32_t low;     // of them, how many are kept
    uint32_t kept;    // in all
    uint32_t cut;
};

__device__ inline index_t start_of(const Filter& filter) {
    return index_t(uint64_t(filter.start_high) << 32 | filter.start_low);
}

// `counts` has the matches of every chunk and is left with the matches before every chunk. For the whole last block.
__device__ inline void decide_filter(Filter* filter, const uint32_t* mask, uint32_t* counts, index_t extent,
                                     uint64_t limit, uint64_t step) {
    const uint64_t start = extent == 0 ? 0 : (step % extent) * (limit % extent) % extent;
    const uint32_t matches = prefix_counts(counts, chunks_of(extent));
    if (warp_of_block() > 0) return;
    const index_t chunk = index_t(start) / CHUNK;
    const uint32_t before = counts[chunk] + count_marks(mask, chunk * CHUNK, index_t(start));
    if (threadIdx.x > 0) return;
    const uint64_t high = matches - before < limit ? matches - before : limit;
    const uint64_t low = before < limit - high ? before : limit - high;
    filter->start_low = uint32_t(start);
    filter->start_high = uint32_t(start >> 32);
    filter->before = before;
    filter->low = uint32_t(low);
    filter->kept = uint32_t(low + high);
    filter->cut = matches - filter->kept;
}

// Calls `emit(slot, position)` for every kept position of the tile.
template <class Emit>
__device__ void write_kept(const Filter& filter, const uint32_t* mask, const uint32_t* counts, const Tile& tile,
                           index_t extent, Emit emit) {
    const index_t run = run_of(tile);
    if (run >= extent) return;
    const index_t start = start_of(filter);
    const index_t chunk = run / CHUNK;
    uint32_t rank = counts[chunk] + count_marks(mask, chunk * CHUNK, run);
    for (unsigned round = 0; round < RUN / 1024; ++round) {
        const index_t first = word_of(run, round);
        uint32_t votes = marks_at(mask, first, extent);
        uint32_t total;
        uint32_t mine = rank + warp_prefix(__popc(votes), total);
        for (; votes != 0; votes &= votes - 1, ++mine) {
            const index_t position = first + lowest_bit(votes);
            const bool late = position >= start;
            const uint32_t slot = late ? mine - filter.before + filter.low : mine;
            if (slot < (late ? filter.kept : filter.low)) emit(slot, position);
        }
        rank += total;
    }
}

}  // namespace compll
