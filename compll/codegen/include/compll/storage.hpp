// Arrays in memory and on the wire: unaligned sections, packed strips, padded views, zeroing and copying.
#pragma once

#include <cstring>

#include <compll/cast.h>
#include <compll/pack.h>
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

// --- packed sections ---------------------------------------------------------------------------------------------------

// 64 codes between one per element of `codes` and the 8 WIDTH bytes at `packed`, which has room for 8 bytes more.
template <int WIDTH>
inline void pack_strip(const uint32_t* codes, uint8_t* packed) {
    if constexpr (WIDTH <= 8) {
        uint8_t narrow[STRIP];
        uint64_t words[8];
        for (int i = 0; i < STRIP; i++) narrow[i] = uint8_t(codes[i] & ((1u << WIDTH) - 1u));
        std::memcpy(words, narrow, sizeof narrow);
        for (int j = 0; j < 8; j++) words[j] = pack_bytes<WIDTH>(words[j]);
        for (int j = 0; j < 8; j++) std::memcpy(packed + j * WIDTH, &words[j], 8);
    } else {
        uint16_t narrow[STRIP];
        uint64_t words[16];
        for (int i = 0; i < STRIP; i++) narrow[i] = uint16_t(codes[i] & ((1u << WIDTH) - 1u));
        std::memcpy(words, narrow, sizeof narrow);
        for (int j = 0; j < 16; j++) words[j] = pack_halves<WIDTH>(words[j]);
        for (int j = 0; j < 8; j++) {
            const unsigned __int128 eight = words[2 * j] | (unsigned __int128)(words[2 * j + 1]) << 4 * WIDTH;
            std::memcpy(packed + j * WIDTH, &eight, WIDTH);
        }
    }
}

template <int WIDTH>
inline void unpack_strip(const uint8_t* packed, uint32_t* codes) {
    if constexpr (WIDTH <= 8) {
        uint8_t narrow[STRIP];
        uint64_t words[8];
        for (int j = 0; j < 8; j++) std::memcpy(&words[j], packed + j * WIDTH, 8);
        for (int j = 0; j < 8; j++) words[j] = unpack_bytes<WIDTH>(words[j]);
        std::memcpy(narrow, words, sizeof narrow);
        for (int i = 0; i < STRIP; i++) codes[i] = narrow[i];
    } else {
        uint16_t narrow[STRIP];
        uint64_t words[16];
        for (int j = 0; j < 8; j++) {
            unsigned __int128 eight = 0;
            std::memcpy(&eight, packed + j * WIDTH, WIDTH);
            words[2 * j] = uint64_t(eight);
            words[2 * j + 1] = uint64_t(eight >> 4 * WIDTH);
        }
        for (int j = 0; j < 16; j++) words[j] = unpack_halves<WIDTH>(words[j]);
        std::memcpy(narrow, words, sizeof narrow);
        for (int i = 0; i < STRIP; i++) codes[i] = narrow[i];
    }
}

// `count` codes from element `first` of a section of width WIDTH.
template <int WIDTH>
inline void unpack(const uint8_t* section, int64_t first, int count, uint32_t* codes) {
    if (first % 8 != 0 || count != STRIP) {
        for (int i = 0; i < count; i++) codes[i] = unpack_at<WIDTH>(section, first + i);
        return;
    }
    uint8_t packed[8 * WIDTH + 8];
    std::memcpy(packed, section + first / 8 * WIDTH, 8 * WIDTH);
    unpack_strip<WIDTH>(packed, codes);
}

// Writes `count` codes from element `first`, a multiple of 8; the bits behind the last code in its byte become 0.
template <int WIDTH>
inline void pack(const uint32_t* codes, int64_t first, int count, uint8_t* section) {
    uint8_t packed[8 * WIDTH + 8];
    if (count == STRIP) {
        pack_strip<WIDTH>(codes, packed);
    } else {
        uint32_t padded[STRIP] = {};
        std::memcpy(padded, codes, sizeof(uint32_t) * size_t(count));
        pack_strip<WIDTH>(padded, packed);
    }
    std::memcpy(section + first / 8 * WIDTH, packed, size_t((count * WIDTH + 7) / 8));
}

// The only element of a packed scalar.
template <int WIDTH>
inline void pack_one(uint32_t code, uint8_t* section) {
    code &= (1u << WIDTH) - 1u;
    std::memcpy(section, &code, (WIDTH + 7) / 8);
}

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
