// The scalar operations of docs/numerics.md, one inline function each, for g++, nvcc and NVRTC alike.
// Uses no standard header but <cstdint> (and none at all under NVRTC). What C++ already does exactly is not here.
#pragma once

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
#define COMPLL_FN __host__ __device__ __forceinline__
#define COMPLL_BUILTIN(name) ::name
#else
#define COMPLL_FN inline __attribute__((always_inline))
#define COMPLL_BUILTIN(name) __builtin_##name
#endif

#if defined(__CUDACC_RTC__)
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long long int64_t;
typedef unsigned long long uint64_t;
#else
#include <cstdint>
#endif

namespace compll {

constexpr int STRIP = 64;      // lanes of the reduction tree, positions evaluated together
constexpr int CHUNK = 4096;    // elements of one chunk of the tree: 64 strips

// --- bit patterns ----------------------------------------------------------------------------------------------------

COMPLL_FN uint32_t raw_bits(float x) {
#if defined(__CUDA_ARCH__)
    return __float_as_uint(x);
#else
    uint32_t bits;
    __builtin_memcpy(&bits, &x, sizeof bits);
    return bits;
#endif
}

COMPLL_FN float from_bits(uint32_t bits) {
#if defined(__CUDA_ARCH__)
    return __uint_as_float(bits);
#else
    float x;
    __builtin_memcpy(&x, &bits, sizeof x);
    return x;
#endif
}

COMPLL_FN uint64_t raw_bits(double x) {
#if defined(__CUDA_ARCH__)
    return static_cast<uint64_t>(__double_as_longlong(x));
#else
    uint64_t bits;
    __builtin_memcpy(&bits, &x, sizeof bits);
    return bits;
#endif
}

COMPLL_FN double from_bits(uint64_t bits) {
#if defined(__CUDA_ARCH__)
    return __longlong_as_double(static_cast<long long>(bits));
#else
    double x;
    __builtin_memcpy(&x, &bits, sizeof x);
    return x;
#endif
}

COMPLL_FN float infinity_f32() { return from_bits(0x7f800000u); }
COMPLL_FN float nan_f32() { return from_bits(0x7fc00000u); }
COMPLL_FN double infinity_f64() { return from_bits(uint64_t{0x7ff0000000000000u}); }
COMPLL_FN double nan_f64() { return from_bits(uint64_t{0x7ff8000000000000u}); }

COMPLL_FN bool is_nan(float x) { return x != x; }
COMPLL_FN bool is_finite(float x) { return (raw_bits(x) & 0x7f800000u) != 0x7f800000u; }

// Every NaN leaves a function as 7fc00000.
COMPLL_FN float canonical(float x) { return x == x ? x : nan_f32(); }
COMPLL_FN double canonical(double x) { return x == x ? x : nan_f64(); }
COMPLL_FN uint32_t bits(float x) { return raw_bits(canonical(x)); }

// --- floating arithmetic that C++ has no operator for -----------------------------------------------------------------

COMPLL_FN float minimum(float a, float b) {
    return a < b ? a : b < a ? b : a == b ? from_bits(raw_bits(a) | raw_bits(b)) : nan_f32();
}
COMPLL_FN float maximum(float a, float b) {
    return a > b ? a : b > a ? b : a == b ? from_bits(raw_bits(a) & raw_bits(b)) : nan_f32();
}
COMPLL_FN double minimum(double a, double b) {
    return a < b ? a : b < a ? b : a == b ? from_bits(raw_bits(a) | raw_bits(b)) : nan_f64();
}
COMPLL_FN double maximum(double a, double b) {
    return a > b ? a : b > a ? b : a == b ? from_bits(raw_bits(a) & raw_bits(b)) : nan_f64();
}
COMPLL_FN float absolute(float x) { return from_bits(raw_bits(x) & 0x7fffffffu); }
COMPLL_FN double absolute(double x) { return from_bits(raw_bits(x) & uint64_t{0x7fffffffffffffffu}); }
COMPLL_FN float negate(float x) { return from_bits(raw_bits(x) ^ 0x80000000u); }
COMPLL_FN double negate(double x) { return from_bits(raw_bits(x) ^ uint64_t{0x8000000000000000u}); }
COMPLL_FN float sign(float x) { return x > 0.0f ? 1.0f : x < 0.0f ? -1.0f : x == x ? 0.0f : nan_f32(); }
COMPLL_FN double sign(double x) { return x > 0.0 ? 1.0 : x < 0.0 ? -1.0 : x == x ? 0.0 : nan_f64(); }
// condition ? x : 0 as a mask: GCC vectorises it among other selections, where it gives up on the choice itself.
COMPLL_FN uint32_t only_if(bool condition, uint32_t x) { return x & (0u - uint32_t(condition)); }
COMPLL_FN int32_t only_if(bool condition, int32_t x) { return int32_t(only_if(condition, uint32_t(x))); }
COMPLL_FN float only_if(bool condition, float x) { return from_bits(only_if(condition, raw_bits(x))); }

COMPLL_FN float fused_multiply_add(float a, float b, float c) { return COMPLL_BUILTIN(fmaf)(a, b, c); }
COMPLL_FN float remainder(float a, float b) { return COMPLL_BUILTIN(fmodf)(a, b); }
COMPLL_FN double remainder(double a, double b) { return COMPLL_BUILTIN(fmod)(a, b); }

COMPLL_FN float round_down(float x) { return COMPLL_BUILTIN(floorf)(x); }
COMPLL_FN float round_up(float x) { return COMPLL_BUILTIN(ceilf)(x); }
COMPLL_FN float round_even(float x) { return COMPLL_BUILTIN(rintf)(x); }
COMPLL_FN float truncate(float x) { return COMPLL_BUILTIN(truncf)(x); }
COMPLL_FN double round_down(double x) { return COMPLL_BUILTIN(floor)(x); }
COMPLL_FN double round_up(double x) { return COMPLL_BUILTIN(ceil)(x); }
COMPLL_FN double round_even(double x) { return COMPLL_BUILTIN(rint)(x); }
COMPLL_FN double truncate(double x) { return COMPLL_BUILTIN(trunc)(x); }
COMPLL_FN float square_root(float x) { return COMPLL_BUILTIN(sqrtf)(x); }
COMPLL_FN double square_root(double x) { return COMPLL_BUILTIN(sqrt)(x); }

// --- integers: arithmetic modulo 2^width, division total --------------------------------------------------------------

COMPLL_FN int32_t wrap_add(int32_t a, int32_t b) { return int32_t(uint32_t(a) + uint32_t(b)); }
COMPLL_FN int32_t wrap_sub(int32_t a, int32_t b) { return int32_t(uint32_t(a) - uint32_t(b)); }
COMPLL_FN int32_t wrap_mul(int32_t a, int32_t b) { return int32_t(uint32_t(a) * uint32_t(b)); }
COMPLL_FN int64_t wrap_add(int64_t a, int64_t b) { return int64_t(uint64_t(a) + uint64_t(b)); }
COMPLL_FN int64_t wrap_sub(int64_t a, int64_t b) { return int64_t(uint64_t(a) - uint64_t(b)); }
COMPLL_FN int64_t wrap_mul(int64_t a, int64_t b) { return int64_t(uint64_t(a) * uint64_t(b)); }
COMPLL_FN int32_t negate(int32_t x) { return int32_t(0u - uint32_t(x)); }
COMPLL_FN int64_t negate(int64_t x) { return int64_t(uint64_t{0} - uint64_t(x)); }
COMPLL_FN uint32_t negate(uint32_t x) { return 0u - x; }
COMPLL_FN int32_t absolute(int32_t x) { return x < 0 ? negate(x) : x; }
COMPLL_FN int64_t absolute(int64_t x) { return x < 0 ? negate(x) : x; }
COMPLL_FN uint32_t absolute(uint32_t x) { return x; }
COMPLL_FN int32_t sign(int32_t x) { return int32_t(x > 0) - int32_t(x < 0); }
COMPLL_FN int64_t sign(int64_t x) { return int64_t(x > 0) - int64_t(x < 0); }
COMPLL_FN uint32_t sign(uint32_t x) { return x != 0u ? 1u : 0u; }

COMPLL_FN uint32_t divide(uint32_t a, uint32_t b) { return b == 0u ? 0u : a / b; }
COMPLL_FN uint32_t remainder(uint32_t a, uint32_t b) { return b == 0u ? 0u : a % b; }
// A divisor of -1 is taken out: -2^31 / -1 does not fit and traps on x86.
COMPLL_FN int32_t divide(int32_t a, int32_t b) { return b == 0 ? 0 : b == -1 ? negate(a) : a / b; }
COMPLL_FN int32_t remainder(int32_t a, int32_t b) { return b == 0 || b == -1 ? 0 : a % b; }
COMPLL_FN int64_t divide(int64_t a, int64_t b) { return b == 0 ? 0 : b == -1 ? negate(a) : a / b; }
COMPLL_FN int64_t remainder(int64_t a, int64_t b) { return b == 0 || b == -1 ? 0 : a % b; }

COMPLL_FN int32_t minimum(int32_t a, int32_t b) { return b < a ? b : a; }
COMPLL_FN int32_t maximum(int32_t a, int32_t b) { return b > a ? b : a; }
COMPLL_FN int64_t minimum(int64_t a, int64_t b) { return b < a ? b : a; }
COMPLL_FN int64_t maximum(int64_t a, int64_t b) { return b > a ? b : a; }
COMPLL_FN uint32_t minimum(uint32_t a, uint32_t b) { return b < a ? b : a; }
COMPLL_FN uint32_t maximum(uint32_t a, uint32_t b) { return b > a ? b : a; }
COMPLL_FN bool minimum(bool a, bool b) { return a && b; }
COMPLL_FN bool maximum(bool a, bool b) { return a || b; }

COMPLL_FN uint32_t shift_left(uint32_t x, uint32_t by) { return by < 32u ? x << by : 0u; }
COMPLL_FN uint32_t shift_right(uint32_t x, uint32_t by) { return by < 32u ? x >> by : 0u; }
COMPLL_FN int32_t shift_left(int32_t x, uint32_t by) { return int32_t(shift_left(uint32_t(x), by)); }
COMPLL_FN int32_t shift_right(int32_t x, uint32_t by) { return x >> (by < 32u ? by : 31u); }
COMPLL_FN int64_t shift_left(int64_t x, uint64_t by) { return by < 64u ? int64_t(uint64_t(x) << by) : 0; }
COMPLL_FN int64_t shift_right(int64_t x, uint64_t by) { return x >> (by < 64u ? by : 63u); }

#if defined(__CUDA_ARCH__)
COMPLL_FN uint32_t popcount(uint32_t x) { return uint32_t(__popc(int(x))); }
COMPLL_FN uint32_t leading_zeros(uint32_t x) { return uint32_t(__clz(int(x))); }
#else
COMPLL_FN uint32_t popcount(uint32_t x) { return uint32_t(__builtin_popcount(x)); }
COMPLL_FN uint32_t leading_zeros(uint32_t x) { return x == 0u ? 32u : uint32_t(__builtin_clz(x)); }
#endif

// --- order of keys in selections: unsigned integers that compare as the keys do ---------------------------------------

// NaN above everything; -0 ties with +0.
COMPLL_FN uint32_t order_key(float x) {
    const uint32_t b = raw_bits(x);
    const uint32_t ordered = (b & 0x80000000u) != 0u ? ~b : b | 0x80000000u;
    return x == 0.0f ? 0x80000000u : x == x ? ordered : 0xffffffffu;
}
COMPLL_FN uint64_t order_key(double x) {
    const uint64_t top = uint64_t{1} << 63;
    const uint64_t b = raw_bits(x);
    const uint64_t ordered = (b & top) != 0u ? ~b : b | top;
    return x == 0.0 ? top : x == x ? ordered : ~uint64_t{0};
}
COMPLL_FN uint32_t order_key(uint32_t x) { return x; }
COMPLL_FN uint32_t order_key(int32_t x) { return uint32_t(x) ^ 0x80000000u; }
COMPLL_FN uint64_t order_key(int64_t x) { return uint64_t(x) ^ (uint64_t{1} << 63); }
COMPLL_FN uint32_t order_key(bool x) { return x ? 1u : 0u; }

// The inverse: a zero comes back as +0, a NaN as 7fc00000.
template <class T>
COMPLL_FN T key_of_order(decltype(order_key(T())) order);
template <>
COMPLL_FN float key_of_order<float>(uint32_t order) {
    const uint32_t b = (order & 0x80000000u) != 0u ? order & 0x7fffffffu : ~order;
    return order == 0xffffffffu ? nan_f32() : from_bits(b);
}
template <>
COMPLL_FN double key_of_order<double>(uint64_t order) {
    const uint64_t top = uint64_t{1} << 63;
    return order == ~uint64_t{0} ? nan_f64() : from_bits((order & top) != 0u ? order & ~top : ~order);
}
template <>
COMPLL_FN uint32_t key_of_order<uint32_t>(uint32_t order) { return order; }
template <>
COMPLL_FN int32_t key_of_order<int32_t>(uint32_t order) { return int32_t(order ^ 0x80000000u); }
template <>
COMPLL_FN int64_t key_of_order<int64_t>(uint64_t order) { return int64_t(order ^ (uint64_t{1} << 63)); }
template <>
COMPLL_FN bool key_of_order<bool>(uint32_t order) { return order != 0u; }

}  // namespace compll
