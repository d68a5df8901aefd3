// One bit per position of a strip: which keys reach a threshold, which predicates hold.
#pragma once

#include <cstring>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#include <compll/scalar.h>

namespace compll {

inline uint64_t first_bits(int count) { return count == STRIP ? ~uint64_t{0} : (uint64_t{1} << count) - 1u; }

// Keys that are not below the threshold; a NaN is not.
template <class K>
inline uint64_t mask_not_below(const K* keys, int count, K threshold) {
    uint64_t mask = 0;
    for (int i = 0; i < count; i++) mask |= uint64_t(!(keys[i] < threshold)) << i;
    return mask;
}

#if defined(__AVX2__)
template <>
inline uint64_t mask_not_below<float>(const float* keys, int count, float threshold) {
    uint64_t mask = 0;
    if (count == STRIP) {
        const __m256 limit = _mm256_set1_ps(threshold);
        for (int i = 0; i < STRIP; i += 8) {
            const __m256 reached = _mm256_cmp_ps(_mm256_loadu_ps(keys + i), limit, _CMP_NLT_UQ);
            mask |= uint64_t(uint32_t(_mm256_movemask_ps(reached))) << i;
        }
        return mask;
    }
    for (int i = 0; i < count; i++) mask |= uint64_t(!(keys[i] < threshold)) << i;
    return mask;
}
#endif

// `flags` holds 0 or 1 and has room for a whole strip.
inline uint64_t mask_of(const bool* flags, int count) {
    uint64_t mask = 0;
#if defined(__AVX2__)
    for (int i = 0; i < STRIP; i += 32) {
        const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(flags + i));
        mask |= uint64_t(uint32_t(_mm256_movemask_epi8(_mm256_slli_epi16(bytes, 7)))) << i;
    }
#else
    for (int i = 0; i < count; i++) mask |= uint64_t(flags[i]) << i;
#endif
    return mask & first_bits(count);
}

}  // namespace compll
