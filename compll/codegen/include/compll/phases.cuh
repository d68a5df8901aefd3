// Phases of one cooperative launch: all blocks finish one before any begins the next.
//
// Blocks stay and walk the tiles of a phase in turns, so that the number of tiles does not matter. What an earlier phase
// has written is read with plain loads; only records and tables, which no phase writes, may come through const caches.
#pragma once

#include <compll/place.cuh>

namespace compll {

// Where the blocks of a grid meet. In memory, zero before the first launch, ready for the next after each.
struct Barrier {
    unsigned arrived;
    unsigned passed;  // how often all have met
};

// The word as other blocks have left it.
__device__ inline unsigned read_word(unsigned* word) {
#if defined(__CUDA_ARCH__)
    return *static_cast<volatile unsigned*>(word);
#else
    return atomicAdd(word, 0u);
#endif
}

// For all threads of all blocks to call, which must be alive together: what any wrote before is there for all behind.
__device__ inline void meet(Barrier* barrier) {
    __syncthreads();
    if (threadIdx.x == 0) {
        const unsigned passed = read_word(&barrier->passed);
        __threadfence();
        if (atomicAdd(&barrier->arrived, 1u) + 1 == gridDim.x) {
            __threadfence();
            barrier->arrived = 0;
            __threadfence();
            atomicAdd(&barrier->passed, 1u);
        } else {
            while (read_word(&barrier->passed) == passed) __nanosleep(64);
        }
        __threadfence();
    }
    __syncthreads();
}

// The tiles of one phase are rows `first` to `first + tiles` of the tables.
struct Span {
    unsigned first;
    unsigned tiles;
    unsigned reserved[2];
};

// `tables` begins with a Span for each table; `pool` is the shared memory of the block.
template <class Segment>
struct Grid {
    const Segment* segments;
    const Tile* tables;
    uint64_t* pool;
    Barrier* barrier;

    // One phase: the tiles of a table, shared out among the blocks.
    template <void (*phase)(const Segment&, const Tile&, uint64_t*)>
    __device__ __forceinline__ void run(unsigned table) const {
        const Span span = reinterpret_cast<const Span*>(tables)[table];
        for (unsigned at = blockIdx.x; at < span.tiles; at += gridDim.x) {
            const Tile tile = tables[span.first + at];
            const Segment s = segments[tile.segment];
            phase(s, tile, pool);
            __syncthreads();  // the next tile uses the same shared memory
        }
    }

    __device__ void meet() const { compll::meet(barrier); }

    // Whether `test` holds for a segment of a table of one tile each; the same in all blocks until the next phase ends.
    template <class Test>
    __device__ bool any(unsigned table, Test test) const {
        __shared__ unsigned found;
        const Span span = reinterpret_cast<const Span*>(tables)[table];
        __syncthreads();
        if (threadIdx.x == 0) found = 0;
        __syncthreads();
        for (unsigned at = threadIdx.x; at < span.tiles; at += THREADS) {
            if (test(segments[tables[span.first + at].segment])) atomicOr(&found, 1u);
        }
        __syncthreads();
        return found != 0;
    }
};

}  // namespace compll
