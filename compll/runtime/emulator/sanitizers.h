// What the address and thread sanitizers of kernel text are told about fibers; nothing without them.
#pragma once

#include <cstddef>

#if defined(EMULATOR_ASAN)
extern "C" {
void __sanitizer_start_switch_fiber(void** save, const void* bottom, size_t size);
void __sanitizer_finish_switch_fiber(void* saved, const void** bottom, size_t* size);
}
#endif
#if defined(EMULATOR_TSAN)
extern "C" {
void* __tsan_get_current_fiber();
void* __tsan_create_fiber(unsigned flags);
void __tsan_destroy_fiber(void* fiber);
void __tsan_switch_to_fiber(void* fiber, unsigned flags);
void __tsan_acquire(void* address);
void __tsan_release(void* address);
}
#endif

namespace emulator {

// A sanitizer's own record of a stack.
struct Fiber {
    void* handle = nullptr;
    const void* bottom = nullptr;
    size_t size = 0;
};

#if defined(EMULATOR_TSAN)
constexpr bool SANITIZER_NEEDS_STACKS = true;  // it must see one stack a thread
inline void acquire(void* meeting) { __tsan_acquire(meeting); }
inline void release(void* meeting) { __tsan_release(meeting); }
#else
constexpr bool SANITIZER_NEEDS_STACKS = false;
inline void acquire(void*) {}
inline void release(void*) {}
#endif

// Made before the first block of a launch, destroyed after the last.
struct Fibers {
    using Get = Fiber& (*)(int thread);
    Get get;
    int count;
#if defined(EMULATOR_TSAN)
    Fibers(Fiber& scheduler, Get get, int count) : get(get), count(count) {
        scheduler.handle = __tsan_get_current_fiber();
        for (int thread = 0; thread < count; ++thread) get(thread).handle = __tsan_create_fiber(0);
    }
    ~Fibers() {
        for (int thread = 0; thread < count; ++thread) __tsan_destroy_fiber(get(thread).handle);
    }
#else
    Fibers(Fiber&, Get get, int count) : get(get), count(count) {}
#endif
};

#if defined(EMULATOR_ASAN)
inline const void* scheduler_bottom = nullptr;
inline size_t scheduler_size = 0;
#endif

// `stack` is the lowest address of the entered fiber's stack, nullptr for the scheduler's.
inline void before_switch([[maybe_unused]] Fiber& left, [[maybe_unused]] Fiber& entered, [[maybe_unused]] bool ends,
                          [[maybe_unused]] const void* stack, [[maybe_unused]] size_t size) {
#if defined(EMULATOR_ASAN)
    const bool home = stack == nullptr;
    __sanitizer_start_switch_fiber(ends ? nullptr : &left.handle, home ? scheduler_bottom : stack,
                                   home ? scheduler_size : size);
#elif defined(EMULATOR_TSAN)
    __tsan_switch_to_fiber(entered.handle, 1);  // 1: switching is no synchronisation
#endif
}

inline void after_switch([[maybe_unused]] Fiber& entered) {
#if defined(EMULATOR_ASAN)
    const void* bottom;
    size_t size;
    __sanitizer_finish_switch_fiber(entered.handle, &bottom, &size);
#endif
}

// First thing on a new stack.
inline void after_start() {
#if defined(EMULATOR_ASAN)
    const void* bottom;
    size_t size;
    __sanitizer_finish_switch_fiber(nullptr, &bottom, &size);
    if (scheduler_bottom == nullptr) {
        scheduler_bottom = bottom;
        scheduler_size = size;
    }
#endif
}

}  // namespace emulator
