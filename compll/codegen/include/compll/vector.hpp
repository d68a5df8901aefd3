// Vectors by the compiler's own extension, where a plain loop is not enough. The intrinsics' header is not used: reading it
// would take a quarter of the time to build a program. Other compilers and machines take the plain loops.
#pragma once

#include <compll/scalar.h>

#if defined(__AVX2__) && defined(__GNUC__) && !defined(__clang__)
#define COMPLL_AVX2 1
#else
#define COMPLL_AVX2 0
#endif

#if COMPLL_AVX2 && defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__)
#define COMPLL_AVX512 1
#else
#define COMPLL_AVX512 0
#endif

namespace compll {

// Eight words side by side; the compiler splits the vector where the machine's are shorter.
typedef uint64_t u64x8 __attribute__((vector_size(64)));

#if COMPLL_AVX2

typedef float f32x8 __attribute__((vector_size(32)));
typedef char i8x32 __attribute__((vector_size(32)));

#if COMPLL_AVX512
typedef float f32x16 __attribute__((vector_size(64)));
typedef int32_t i32_wide __attribute__((vector_size(64)));
typedef uint64_t u64_wide __attribute__((vector_size(64)));
#else
typedef int32_t i32_wide __attribute__((vector_size(32)));
typedef uint64_t u64_wide __attribute__((vector_size(32)));
#endif

// factor * the low half of every word of x.
inline u64_wide multiply_low(uint32_t factor, u64_wide x) {
    const i32_wide a = reinterpret_cast<i32_wide>(factor + u64_wide{});
    const i32_wide b = reinterpret_cast<i32_wide>(x);
#if COMPLL_AVX512
    typedef long long words __attribute__((vector_size(64)));
    return reinterpret_cast<u64_wide>(__builtin_ia32_pmuludq512_mask(a, b, words{}, 0xff));
#else
    return reinterpret_cast<u64_wide>(__builtin_ia32_pmuludq256(a, b));
#endif
}

// The even words of a and b in turn, or the odd ones.
inline u64_wide interleave_even(u64_wide a, u64_wide b) {
#if COMPLL_AVX512
    return __builtin_shuffle(a, b, u64_wide{0, 8, 2, 10, 4, 12, 6, 14});
#else
    return __builtin_shuffle(a, b, u64_wide{0, 4, 2, 6});
#endif
}

inline u64_wide interleave_odd(u64_wide a, u64_wide b) {
#if COMPLL_AVX512
    return __builtin_shuffle(a, b, u64_wide{1, 9, 3, 11, 5, 13, 7, 15});
#else
    return __builtin_shuffle(a, b, u64_wide{1, 5, 3, 7});
#endif
}

#endif

}  // namespace compll
