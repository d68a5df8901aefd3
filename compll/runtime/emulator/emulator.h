// CUDA's words for g++: included in front of generated kernel text, which stays unchanged. A thread is a fiber of
// scheduler.cpp. One-dimensional launches only. Shared memory is static, so of the blocks that are alive together each
// runs in a copy of the library of its own (devices/emulation.py).
#pragma once

#include <cstdint>
#include <cstring>
#include <tuple>

#define __global__
#define __device__
#define __host__
#define __constant__
#define __launch_bounds__(...)
#define __forceinline__ inline __attribute__((always_inline))
#define __shared__ static

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

using Kernel = void(void* context);

enum class WarpOperation { sync, shuffle, shuffle_up, shuffle_down, shuffle_xor, ballot };

// The scheduler's side (scheduler.cpp). `current` is the place of the running thread.
extern "C" {
extern const Place* emulator_current;
void emulator_barrier();
uint64_t emulator_warp(WarpOperation operation, unsigned mask, uint64_t value, int argument);
void emulator_sleep();
void emulator_fence();
void emulator_atomic(void* place);
int emulator_run(unsigned count, unsigned size, unsigned alive, Kernel* const* kernels, void* context);
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
inline void __nanosleep(unsigned) { emulator::emulator_sleep(); }

#if defined(__SANITIZE_THREAD__)
inline void __threadfence() { emulator::emulator_fence(); }
#define EMULATOR_ATOMIC(place) emulator::emulator_atomic(place)
#else
inline void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
#define EMULATOR_ATOMIC(place)
#endif

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
    const uint32_t before = __atomic_fetch_add(place, value, __ATOMIC_RELAXED);
    EMULATOR_ATOMIC(place);
    return before;
}
inline uint32_t atomicOr(uint32_t* place, uint32_t value) {
    const uint32_t before = __atomic_fetch_or(place, value, __ATOMIC_RELAXED);
    EMULATOR_ATOMIC(place);
    return before;
}

// The entry by which the host starts a kernel, whose parameters are pointers.
#define EMULATOR_EXPORT(name)                                                                   \
    extern "C" __attribute__((visibility("default"))) emulator::Kernel* emulated_##name() {     \
        return emulator::Call<decltype(name), name>::run;                                       \
    }

namespace emulator {

template <class Function, Function& kernel>
struct Call;

template <class... Pointees, void (&kernel)(Pointees*...)>
struct Call<void(Pointees*...), kernel> {
    static void run(void* context) {
        void** next = static_cast<void**>(context);
        std::apply(kernel, std::tuple<Pointees*...>{static_cast<Pointees*>(*next++)...});  // braces: in order
    }
};

}  // namespace emulator
