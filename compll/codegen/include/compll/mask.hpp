// One bit per position of a strip: which keys reach a threshold, which predicates hold.
#pragma once

#include <cstring>

#include <compll/vector.hpp>

namespace compll {

inline uint64_t first_bits(int count) { return count == STRIP ? ~uint64_t{0} : (uint64_t{1} << count) - 1u; }

// Keys that are not below the threshold; a NaN is not.
template <class K>
inline uint64_t mask_not_below(const K* keys, int count, K threshold) {
    uint64_t mask = 0;
    for (int i = 0; i < count; i++) mask |= uint64_t(!(keys[i] < threshold)) << i;
    return mask;
}

#if COMPLL_AVX2
template <>
inline uint64_t mask_not_below<float>(const float* keys, int count, float threshold) {
    uint64_t mask = 0;
    if (count == STRIP) {
#if COMPLL_AVX512
        for (int i = 0; i < STRIP; i += 16) {
            f32x16 some;
            std::memcpy(&some, keys + i, sizeof some);
            constexpr int NOT_LESS = 0x15;
            mask |= uint64_t(uint16_t(__builtin_ia32_cmpps512_mask(some, threshold + f32x16{}, NOT_LESS, -1, 4))) << i;
        }
#else
        for (int i = 0; i < STRIP; i += 8) {
            f32x8 eight;
            std::memcpy(&eight, keys + i, sizeof eight);
            const auto below = reinterpret_cast<f32x8>(eight < threshold);
            mask |= uint64_t(0xffu & ~uint32_t(__builtin_ia32_movmskps256(below))) << i;
        }
#endif
        return mask;
    }
    for (int i = 0; i < count; i++) mask |= uint64_t(!(keys[i] < threshold)) << i;
    return mask;
}
#endif

// `flags` holds 0 or 1 and has room for a whole strip.
inline uint64_t mask_of(const bool* flags, int count) {
    uint64_t mask = 0;
#if COMPLL_AVX2
    for (int i = 0; i < STRIP; i += 32) {
        i8x32 bytes;
        std::memcpy(&bytes, flags + i, sizeof bytes);
        mask |= uint64_t(uint32_t(__builtin_ia32_pmovmskb256(bytes == 1))) << i;
    }
#else
    for (int i = 0; i < count; i++) mask |= uint64_t(flags[i]) << i;
#endif
    return mask & first_bits(count);
}

}  // namespace compll
