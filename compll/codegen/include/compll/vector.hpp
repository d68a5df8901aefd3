// Vectors of 32 bytes by the compiler's own extension, where a plain loop is not enough. The intrinsics' header is not
// used: reading it would take a quarter of the time to build a program. Other compilers take the plain loops.
#pragma once

#include <compll/scalar.h>

#if defined(__AVX2__) && defined(__GNUC__) && !defined(__clang__)
#define COMPLL_AVX2 1
#else
#define COMPLL_AVX2 0
#endif

#if COMPLL_AVX2

namespace compll {

typedef float f32x8 __attribute__((vector_size(32)));
typedef uint32_t u32x8 __attribute__((vector_size(32)));
typedef int32_t i32x8 __attribute__((vector_size(32)));
typedef uint64_t u64x4 __attribute__((vector_size(32)));
typedef char i8x32 __attribute__((vector_size(32)));

// The high and the low halves of factor * x, lane by lane.
inline void multiply_wide(u32x8 factor, u32x8 x, u32x8& high, u32x8& low) {
    const u32x8 upper = reinterpret_cast<u32x8>(reinterpret_cast<u64x4>(x) >> 32);
    const i32x8 f = reinterpret_cast<i32x8>(factor);
    const u32x8 even = reinterpret_cast<u32x8>(__builtin_ia32_pmuludq256(f, reinterpret_cast<i32x8>(x)));
    const u32x8 odd = reinterpret_cast<u32x8>(__builtin_ia32_pmuludq256(f, reinterpret_cast<i32x8>(upper)));
    high = __builtin_shuffle(even, odd, u32x8{1, 9, 3, 11, 5, 13, 7, 15});
    low = __builtin_shuffle(even, odd, u32x8{0, 8, 2, 10, 4, 12, 6, 14});
}

}  // namespace compll

#endif
