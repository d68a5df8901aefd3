// Scans in the order of numerics.md, section 5: strips of 64 in sequence, their carries in sequence within a chunk, the
// chunks' carries in sequence. A group walks a chunk, each of its threads one strip.
#pragma once

#include <compll/combine.cuh>

namespace compll {

// The positions [first, end) of this thread's strip in the chunk that begins at `chunk_first`.
struct StripRange {
    index_t first;
    index_t end;
};

__device__ inline StripRange strip_of(index_t chunk_first, index_t extent) {
    const index_t first = chunk_first + lane_of_chunk() * STRIP;
    const index_t end = first + STRIP;
    return StripRange{first, end < extent ? end : extent};
}

template <class Op, class Value>
__device__ typename Op::State strip_total(const StripRange& strip, Value value, const Op& op) {
    typename Op::State total = op.identity();
    for (index_t at = strip.first; at < strip.end; ++at) total = op.combine(total, value(at));
    return total;
}

// From the strips' totals: this thread's strip carry, and the chunk's total (in every thread of the group).
template <class Op>
__device__ typename Op::State strip_carry(typename Op::State total, index_t chunk_first, index_t extent,
                                          typename Op::State& chunk_total, const Op& op) {
    __shared__ typename Op::State of_strip[GROUPS][STRIPS];
    __shared__ typename Op::State of_chunk[GROUPS];
    const unsigned group = group_of_block();
    __syncthreads();
    of_strip[group][lane_of_chunk()] = total;
    __syncthreads();
    if (lane_of_chunk() == 0) {
        typename Op::State carry = op.identity();
        for (unsigned strip = 0; strip < STRIPS && chunk_first + strip * STRIP < extent; ++strip) {
            const typename Op::State mine = of_strip[group][strip];
            of_strip[group][strip] = carry;
            carry = op.combine(carry, mine);
        }
        of_chunk[group] = carry;
    }
    __syncthreads();
    chunk_total = of_chunk[group];
    return of_strip[group][lane_of_chunk()];
}

// Calls `emit(position, result)` for a strip, whose elements are read again.
template <bool exclusive, class Op, class Value, class Emit>
__device__ void write_strip(const StripRange& strip, typename Op::State chunk_carry, typename Op::State carry,
                            const Op& op, Value value, Emit emit) {
    typename Op::State local = op.identity();
    for (index_t at = strip.first; at < strip.end; ++at) {
        const typename Op::State next = op.combine(local, value(at));
        emit(at, op.combine(chunk_carry, op.combine(carry, exclusive ? local : next)));
        local = next;
    }
}

// First launch of a scan of a whole space: the chunks' totals, then, in the last block, the chunks' carries.
template <class Op, class Value>
__device__ void scan_totals(typename Op::State* carries, unsigned* arrivals, const Tile& tile, index_t extent,
                            const Op& op, Value value) {
    const index_t first = chunk_of(tile) * CHUNK;
    typename Op::State chunk_total;
    strip_carry(strip_total(strip_of(first, extent), value, op), first, extent, chunk_total, op);
    if (lane_of_chunk() == 0 && first < extent) carries[chunk_of(tile)] = chunk_total;
    if (!last_tile(arrivals, tile) || threadIdx.x > 0) return;
    typename Op::State carry = op.identity();
    for (index_t chunk = 0; chunk * CHUNK < extent; ++chunk) {
        const typename Op::State total = carries[chunk];
        carries[chunk] = carry;
        carry = op.combine(carry, total);
    }
}

// Second launch: the results.
template <bool exclusive, class Op, class Value, class Emit>
__device__ void scan_write(const typename Op::State* carries, const Tile& tile, index_t extent, const Op& op,
                           Value value, Emit emit) {
    const index_t first = chunk_of(tile) * CHUNK;
    const StripRange strip = strip_of(first, extent);
    typename Op::State chunk_total;
    const typename Op::State carry = strip_carry(strip_total(strip, value, op), first, extent, chunk_total, op);
    if (first < extent) write_strip<exclusive>(strip, carries[chunk_of(tile)], carry, op, value, emit);
}

// The scan of one row, by the whole block.
template <bool exclusive, class Op, class Value, class Emit>
__device__ void scan_row(index_t columns, const Op& op, Value value, Emit emit) {
    __shared__ typename Op::State of_chunk[GROUPS];
    typename Op::State row_carry = op.identity();  // the carry of the next chunk
    for (index_t tile_first = 0; tile_first < columns; tile_first += TILE) {
        const index_t first = tile_first + group_of_block() * CHUNK;
        const StripRange strip = strip_of(first, columns);
        typename Op::State chunk_total;
        const typename Op::State carry = strip_carry(strip_total(strip, value, op), first, columns, chunk_total, op);
        if (lane_of_chunk() == 0) of_chunk[group_of_block()] = chunk_total;
        __syncthreads();
        typename Op::State chunk_carry = row_carry;
        for (unsigned chunk = 0; chunk < GROUPS && tile_first + chunk * CHUNK < columns; ++chunk) {
            if (chunk == group_of_block()) chunk_carry = row_carry;
            row_carry = op.combine(row_carry, of_chunk[chunk]);
        }
        write_strip<exclusive>(strip, chunk_carry, carry, op, value, emit);
        __syncthreads();
    }
}

}  // namespace compll
