// CUDA's words for g++: included in front of generated kernel text, which stays unchanged. A thread is a fiber of
// scheduler.cpp; a block runs to its end before the next begins. One-dimensional launches only.
#pragma once

#include <cstdint>
#include <cstring>

#define __global__
#define __device__
#define __host__
#define __constant__
#define __launch_bounds__(...)
#define __forceinline__ inline __attribute__((always_inline))
#define __shared__ static  // one block runs at a time

namespace emulator {

struct Index {
    unsigned x;
};

// What a thread can ask about itself.
struct Place {
    Index thread;
    Index block;
    Index threads;
    Index blocks;
};

enum class WarpOperation { sync, shuffle, shuffle_up, shuffle_down, shuffle_xor, ballot };

// The scheduler's side (scheduler.cpp). `current` is the place of the running thread.
extern "C" {
extern const Place* emulator_current;
void emulator_barrier();
uint64_t emulator_warp(WarpOperation operation, unsigned mask, uint64_t value, int argument);
int emulator_run(unsigned blocks, unsigned threads, void (*kernel)(void*), void* context);
}

template <class T>
inline T warp(WarpOperation operation, unsigned mask, T value, int argument) {
    static_assert(sizeof(T) <= sizeof(uint64_t), "a shuffle moves at most 8 bytes");
    uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof value);
    bits = emulator_warp(operation, mask, bits, argument);
    std::memcpy(&value, &bits, sizeof value);
    return value;
}

}  // namespace emulator

#define threadIdx (emulator::emulator_current->thread)
#define blockIdx (emulator::emulator_current->block)
#define blockDim (emulator::emulator_current->threads)
#define gridDim (emulator::emulator_current->blocks)

inline void __syncthreads() { emulator::emulator_barrier(); }
inline void __syncwarp(unsigned mask = ~0u) { emulator::warp(emulator::WarpOperation::sync, mask, 0, 0); }
inline void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }

template <class T>
inline T __shfl_sync(unsigned mask, T value, int lane) {
    return emulator::warp(emulator::WarpOperation::shuffle, mask, value, lane);
}
template <class T>
inline T __shfl_up_sync(unsigned mask, T value, unsigned by) {
    return emulator::warp(emulator::WarpOperation::shuffle_up, mask, value, int(by));
}
template <class T>
inline T __shfl_down_sync(unsigned mask, T value, unsigned by) {
    return emulator::warp(emulator::WarpOperation::shuffle_down, mask, value, int(by));
}
template <class T>
inline T __shfl_xor_sync(unsigned mask, T value, int with) {
    return emulator::warp(emulator::WarpOperation::shuffle_xor, mask, value, with);
}
inline unsigned __ballot_sync(unsigned mask, int vote) {
    return unsigned(emulator::warp(emulator::WarpOperation::ballot, mask, uint64_t(vote != 0), 0));
}

inline int __popc(unsigned x) { return __builtin_popcount(x); }

inline uint32_t atomicAdd(uint32_t* place, uint32_t value) {
    return __atomic_fetch_add(place, value, __ATOMIC_RELAXED);
}
inline uint32_t atomicOr(uint32_t* place, uint32_t value) { return __atomic_fetch_or(place, value, __ATOMIC_RELAXED); }

// The entry by which the host starts a kernel of the one signature that generated kernels have (emit/cuda_launch.py).
#define EMULATOR_EXPORT(name)                                                                                  \
    extern "C" int launch_##name(unsigned blocks, unsigned threads, const void* segments, const void* tiles) { \
        const void* arguments[2] = {segments, tiles};                                                          \
        return emulator::emulator_run(blocks, threads, emulator::call<decltype(name), name>, arguments);       \
    }

namespace emulator {

template <class Kernel, Kernel& kernel>
struct Call;

template <class Segment, class Tile, void (&kernel)(const Segment*, const Tile*)>
struct Call<void(const Segment*, const Tile*), kernel> {
    static void run(void* context) {
        const void** given = static_cast<const void**>(context);
        kernel(static_cast<const Segment*>(given[0]), static_cast<const Tile*>(given[1]));
    }
};

template <class Kernel, Kernel& kernel>
void call(void* context) {
    Call<Kernel, kernel>::run(context);
}

}  // namespace emulator
