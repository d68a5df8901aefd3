// Arrays in memory and on the wire: unaligned sections, padded views, zeroing and copying.
#pragma once

#include <cstring>

#include <compll/cast.h>
#include <compll/packed.hpp>
#include <compll/runtime.hpp>

namespace compll {

// A payload may start at any byte of a receive buffer, so elements of raw sections have no alignment.
typedef float wire_float __attribute__((aligned(1), may_alias));
typedef double wire_double __attribute__((aligned(1), may_alias));
typedef int32_t wire_int32_t __attribute__((aligned(1), may_alias));
typedef int64_t wire_int64_t __attribute__((aligned(1), may_alias));
typedef uint32_t wire_uint32_t __attribute__((aligned(1), may_alias));
typedef uint16_t wire_uint16_t __attribute__((aligned(1), may_alias));
typedef uint8_t wire_uint8_t;

// --- views that are longer than the memory behind them (blocks): zeros beyond `numel` -----------------------------------

template <class T>
inline void load_padded(const T* source, int64_t first, int count, int64_t numel, T* strip) {
    const int64_t inside = std::clamp<int64_t>(numel - first, 0, count);
    std::memcpy(strip, source + first, sizeof(T) * size_t(inside));
    std::memset(strip + inside, 0, sizeof(T) * size_t(count - inside));
}

template <class T>
inline void store_padded(const T* strip, int64_t first, int count, int64_t numel, T* target) {
    const int64_t inside = std::clamp<int64_t>(numel - first, 0, count);
    std::memcpy(target + first, strip, sizeof(T) * size_t(inside));
}

// --- whole arrays ------------------------------------------------------------------------------------------------------

inline void zero_bytes(void* target, int64_t bytes, int threads) {
    char* memory = static_cast<char*>(target);
    for_ranges(threads, bytes, [&](int, int64_t begin, int64_t end) {
        std::memset(memory + begin, 0, size_t(end - begin));
    });
}

template <class T>
inline void zero(T* target, int64_t first, int64_t end, int threads) {
    if (first < end) zero_bytes(target + first, int64_t(sizeof(T)) * (end - first), threads);
}

template <class T>
inline void copy(const T* source, int64_t count, int threads, T* target) {
    for_ranges(threads, count, [&](int, int64_t begin, int64_t end) {
        std::memcpy(target + begin, source + begin, sizeof(T) * size_t(end - begin));
    });
}

inline uint32_t load_count(const uint8_t* header, int64_t limit) {
    uint32_t count;
    std::memcpy(&count, header, sizeof count);
    return uint32_t(std::min<int64_t>(count, limit));
}

inline void store_count(uint32_t count, uint8_t* header) { std::memcpy(header, &count, sizeof count); }

inline bool inside(int64_t index, int64_t extent) { return uint64_t(index) < uint64_t(extent); }

}  // namespace compll
