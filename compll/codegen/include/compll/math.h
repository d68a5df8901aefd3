// exp, log, exp2, log2 and pow of f32, computed in f64 by + - * / alone and rounded once: equal bits everywhere.
// Formulas and error: docs/numerics.md, section 3. For g++ (-ffp-contract=off), nvcc and NVRTC (-fmad=false).
#pragma once

#include <compll/scalar.h>

namespace compll {
namespace detail {

constexpr double LOG2E = 0x1.71547652b82fep+0;
constexpr double LN2 = 0x1.62e42fefa39efp-1;
constexpr double LN2_HI = 0x1.62e42fee00000p-1;
constexpr double LN2_LO = 0x1.a39ef35793c76p-33;
constexpr double SQRT2 = 0x1.6a09e667f3bcdp+0;

// e^r for |r| < 0.35.
COMPLL_FN double taylor(double r) {
    double p = 1.0 / 6227020800.0;
    p = p * r + 1.0 / 479001600.0;
    p = p * r + 1.0 / 39916800.0;
    p = p * r + 1.0 / 3628800.0;
    p = p * r + 1.0 / 362880.0;
    p = p * r + 1.0 / 40320.0;
    p = p * r + 1.0 / 5040.0;
    p = p * r + 1.0 / 720.0;
    p = p * r + 1.0 / 120.0;
    p = p * r + 1.0 / 24.0;
    p = p * r + 1.0 / 6.0;
    p = p * r + 1.0 / 2.0;
    p = p * r + 1.0;
    return p * r + 1.0;
}

// p * 2^k for a whole k in [-151, 129].
COMPLL_FN double scale(double p, double k) { return p * from_bits(uint64_t(int64_t(k) + 1023) << 52); }

COMPLL_FN double exp64(double t) {
    if (t != t) return nan_f64();
    if (t > 89.0) return infinity_f64();
    if (t < -104.0) return 0.0;
    const double k = round_even(t * LOG2E);
    const double r = (t - k * LN2_HI) - k * LN2_LO;
    return scale(taylor(r), k);
}

COMPLL_FN double log64(double x) {
    if (!(x >= 0.0)) return nan_f64();
    if (x == 0.0) return -infinity_f64();
    if (x == infinity_f64()) return x;
    double e = double(int64_t(raw_bits(x) >> 52) - 1023);
    double m = from_bits((raw_bits(x) & uint64_t{0x000fffffffffffffu}) | uint64_t{0x3ff0000000000000u});
    if (m >= SQRT2) {
        m = m * 0.5;
        e = e + 1.0;
    }
    const double s = (m - 1.0) / (m + 1.0);
    const double z = s * s;
    double q = 1.0 / 19.0;
    q = q * z + 1.0 / 17.0;
    q = q * z + 1.0 / 15.0;
    q = q * z + 1.0 / 13.0;
    q = q * z + 1.0 / 11.0;
    q = q * z + 1.0 / 9.0;
    q = q * z + 1.0 / 7.0;
    q = q * z + 1.0 / 5.0;
    q = q * z + 1.0 / 3.0;
    const double t = 2.0 * s;
    return e * LN2_HI + ((t + t * (z * q)) + e * LN2_LO);
}

}  // namespace detail

COMPLL_FN float exponential(float x) { return float(detail::exp64(double(x))); }
COMPLL_FN float logarithm(float x) { return float(detail::log64(double(x))); }
COMPLL_FN float logarithm2(float x) { return float(detail::log64(double(x)) * detail::LOG2E); }

COMPLL_FN float exponential2(float x) {
    if (x != x) return nan_f32();
    if (x > 128.0f) return infinity_f32();
    if (x < -150.0f) return 0.0f;
    const double k = round_even(double(x));
    return float(detail::scale(detail::taylor((double(x) - k) * detail::LN2), k));
}

COMPLL_FN float power(float x, float y) {
    if (y == 0.0f || x == 1.0f) return 1.0f;
    if (x != x || y != y) return nan_f32();
    if (x == 0.0f) return y > 0.0f ? 0.0f : infinity_f32();
    if (x < 0.0f && round_even(y) != y) return nan_f32();
    const double base = double(absolute(x));
    const double p = base == 1.0 ? 1.0 : detail::exp64(double(y) * detail::log64(base));
    const bool odd = is_finite(y) && round_even(y * 0.5f) * 2.0f != y;
    return float(x < 0.0f && odd ? -p : p);
}

}  // namespace compll
