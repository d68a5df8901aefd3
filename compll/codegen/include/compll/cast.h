// Conversions by the rules of docs/numerics.md: saturating, nearest even, NaN to integer 0. For g++, nvcc and NVRTC.
#pragma once

#include <compll/scalar.h>

namespace compll {

// --- f16 and bf16 as they are stored ---------------------------------------------------------------------------------

COMPLL_FN float f16_to_f32(uint16_t half) {
    const uint32_t sign = (uint32_t(half) & 0x8000u) << 16;
    const uint32_t shifted = (uint32_t(half) & 0x7fffu) << 13;
    const uint32_t exponent = shifted & 0x0f800000u;
    // A denormal half m * 2^-24 is (2^-14 + m * 2^-24) - 2^-14, exactly.
    const uint32_t denormal = raw_bits(from_bits(shifted + 0x38800000u) - from_bits(0x38800000u));
    const uint32_t wide = exponent == 0x0f800000u ? shifted | 0x7f800000u : shifted + 0x38000000u;
    return from_bits(sign | (exponent == 0u ? denormal : wide));
}

// Nearest even; finite values saturate at 65504; NaN is 7e00.
COMPLL_FN uint16_t f32_to_f16(float x) {
    const uint32_t sign = (raw_bits(x) >> 16) & 0x8000u;
    const uint32_t magnitude = raw_bits(x) & 0x7fffffffu;
    // Below 2^-14 the sum with 1/2 rounds at 2^-24, the step of denormal halves.
    const uint32_t denormal = raw_bits(from_bits(magnitude) + 0.5f) - 0x3f000000u;
    const uint32_t normal = (magnitude + 0xc8000fffu + ((magnitude >> 13) & 1u)) >> 13;
    const uint32_t finite = magnitude >= 0x477ff000u ? 0x7bffu : magnitude < 0x38800000u ? denormal : normal;
    const uint32_t other = magnitude == 0x7f800000u ? sign | 0x7c00u : 0x7e00u;
    return uint16_t(magnitude < 0x7f800000u ? sign | finite : other);
}

COMPLL_FN float bf16_to_f32(uint16_t half) { return from_bits(uint32_t(half) << 16); }

// Nearest even; finite values saturate at 7f7f; NaN is 7fc0.
COMPLL_FN uint16_t f32_to_bf16(float x) {
    const uint32_t sign = (raw_bits(x) >> 16) & 0x8000u;
    const uint32_t magnitude = raw_bits(x) & 0x7fffffffu;
    const uint32_t rounded = (magnitude + 0x7fffu + ((magnitude >> 16) & 1u)) >> 16;
    const uint32_t finite = rounded > 0x7f7fu ? 0x7f7fu : rounded;
    const uint32_t other = magnitude == 0x7f800000u ? sign | 0x7f80u : 0x7fc0u;
    return uint16_t(magnitude < 0x7f800000u ? sign | finite : other);
}

COMPLL_FN float round_to_f16(float x) { return f16_to_f32(f32_to_f16(x)); }
COMPLL_FN float round_to_bf16(float x) { return bf16_to_f32(f32_to_bf16(x)); }

COMPLL_FN float f64_to_f32(double x) {
    const float largest = from_bits(0x7f7fffffu);
    const float nearest = float(x);
    const bool overflowed = !is_finite(nearest) && x - x == 0.0;
    return overflowed ? (x > 0.0 ? largest : -largest) : nearest;
}

// --- to integers: clamp, then truncate toward zero; NaN gives 0 -------------------------------------------------------

COMPLL_FN int32_t to_i32(float x) {
    return x >= 2147483648.0f ? 2147483647 : x < -2147483648.0f ? -2147483647 - 1 : x == x ? int32_t(x) : 0;
}
COMPLL_FN int32_t to_i32(double x) {
    return x >= 2147483647.0 ? 2147483647 : x <= -2147483648.0 ? -2147483647 - 1 : x == x ? int32_t(x) : 0;
}
COMPLL_FN int32_t to_i32(int32_t x) { return x; }
COMPLL_FN int32_t to_i32(uint32_t x) { return x > 2147483647u ? 2147483647 : int32_t(x); }
COMPLL_FN int32_t to_i32(int64_t x) {
    return x > 2147483647 ? 2147483647 : x < -2147483648LL ? -2147483647 - 1 : int32_t(x);
}

COMPLL_FN int64_t to_i64(double x) {
    const int64_t largest = 0x7fffffffffffffffLL;
    const double limit = 9223372036854775808.0;
    return x >= limit ? largest : x < -limit ? -largest - 1 : x == x ? int64_t(x) : 0;
}
COMPLL_FN int64_t to_i64(float x) { return to_i64(double(x)); }
COMPLL_FN int64_t to_i64(int32_t x) { return x; }
COMPLL_FN int64_t to_i64(uint32_t x) { return int64_t(x); }
COMPLL_FN int64_t to_i64(int64_t x) { return x; }

// To an unsigned type whose largest value is `largest`.
COMPLL_FN uint32_t to_unsigned(float x, uint32_t largest) {
    if (largest <= 0xffffu) {  // through i32, which vector units convert to
        const float limit = float(int32_t(largest));
        return uint32_t(int32_t(x > 0.0f ? (x < limit ? x : limit) : 0.0f));
    }
    return x >= 4294967296.0f ? 0xffffffffu : x > 0.0f ? uint32_t(x) : 0u;
}
COMPLL_FN uint32_t to_unsigned(double x, uint32_t largest) {
    return x >= double(largest) ? largest : x > 0.0 ? uint32_t(x) : 0u;
}
COMPLL_FN uint32_t to_unsigned(uint32_t x, uint32_t largest) { return x > largest ? largest : x; }
COMPLL_FN uint32_t to_unsigned(int32_t x, uint32_t largest) { return x < 0 ? 0u : to_unsigned(uint32_t(x), largest); }
COMPLL_FN uint32_t to_unsigned(int64_t x, uint32_t largest) {
    return x < 0 ? 0u : x > int64_t(largest) ? largest : uint32_t(x);
}

}  // namespace compll
