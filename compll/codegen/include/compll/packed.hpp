// Strips of codes in packed sections: eight words of eight codes side by side.
#pragma once

#include <cstring>

#include <compll/pack.h>
#include <compll/vector.hpp>

namespace compll {

// The words of one byte, two or four, where that is what WIDTH takes.
template <int WIDTH>
struct Narrow;
template <>
struct Narrow<1> {
    typedef uint8_t Words __attribute__((vector_size(8)));
};
template <>
struct Narrow<2> {
    typedef uint16_t Words __attribute__((vector_size(16)));
};
template <>
struct Narrow<4> {
    typedef uint32_t Words __attribute__((vector_size(32)));
};
constexpr bool has_narrow(int width) { return width == 1 || width == 2 || width == 4; }

// The low WIDTH bytes of each word, one behind the other; room for 8 bytes more.
template <int WIDTH>
inline void store_words(const u64x8& words, uint8_t* packed) {
    if constexpr (has_narrow(WIDTH)) {
        const auto narrow = __builtin_convertvector(words, typename Narrow<WIDTH>::Words);
        std::memcpy(packed, &narrow, sizeof narrow);
    } else {
        for (int j = 0; j < 8; j++) {
            const uint64_t word = words[j];
            std::memcpy(packed + j * WIDTH, &word, 8);
        }
    }
}

template <int WIDTH>
inline u64x8 load_words(const uint8_t* packed) {
    if constexpr (WIDTH == 1) {
        uint64_t all;
        std::memcpy(&all, packed, sizeof all);
        return (all + u64x8{}) >> u64x8{0, 8, 16, 24, 32, 40, 48, 56};
    } else if constexpr (WIDTH == 2) {
        Narrow<2>::Words narrow;
        std::memcpy(&narrow, packed, sizeof narrow);
        return __builtin_convertvector(__builtin_convertvector(narrow, Narrow<4>::Words), u64x8);
    } else if constexpr (WIDTH == 4) {
        Narrow<4>::Words narrow;
        std::memcpy(&narrow, packed, sizeof narrow);
        return __builtin_convertvector(narrow, u64x8);
    } else {
        uint64_t words[8];
        for (int j = 0; j < 8; j++) std::memcpy(&words[j], packed + j * WIDTH, 8);
        u64x8 eight;
        std::memcpy(&eight, words, sizeof eight);
        return eight;
    }
}

// 64 codes between one per element of `codes` and the 8 WIDTH bytes at `packed`, which has room for 8 bytes more.
template <int WIDTH>
inline void pack_strip(const uint32_t* codes, uint8_t* packed) {
    if constexpr (WIDTH <= 8) {
        alignas(64) uint8_t narrow[STRIP];
        u64x8 words;
        for (int i = 0; i < STRIP; i++) narrow[i] = uint8_t(codes[i] & ((1u << WIDTH) - 1u));
        std::memcpy(&words, narrow, sizeof words);
        store_words<WIDTH>(pack_bytes<WIDTH>(words), packed);
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
        alignas(64) uint8_t narrow[STRIP];
        const u64x8 words = unpack_bytes<WIDTH>(load_words<WIDTH>(packed));
        std::memcpy(narrow, &words, sizeof narrow);
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

}  // namespace compll
