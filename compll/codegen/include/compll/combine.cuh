// How two partial results of a reduction become one (numerics.md, section 4).
//
// A combination is an object with a type `State`, `identity()`, `take(state, value, strip, position)` for one element
// of a lane, and `combine(left, right)`. A lane takes at most one element of each strip.
#pragma once

#include <compll/place.cuh>

namespace compll {

__device__ inline float sum_of(float left, float right) { return left + right; }
__device__ inline double sum_of(double left, double right) { return left + right; }
__device__ inline uint32_t sum_of(uint32_t left, uint32_t right) { return left + right; }
__device__ inline int32_t sum_of(int32_t left, int32_t right) { return wrap_add(left, right); }
__device__ inline int64_t sum_of(int64_t left, int64_t right) { return wrap_add(left, right); }

// The identities of min and max.
template <class T>
__device__ T highest();
template <>
__device__ inline float highest<float>() { return infinity_f32(); }
template <>
__device__ inline double highest<double>() { return infinity_f64(); }
template <>
__device__ inline uint32_t highest<uint32_t>() { return 0xffffffffu; }
template <>
__device__ inline int32_t highest<int32_t>() { return 0x7fffffff; }
template <>
__device__ inline int64_t highest<int64_t>() { return 0x7fffffffffffffffLL; }
template <class T>
__device__ inline T lowest() { return -highest<T>(); }
template <>
__device__ inline uint32_t lowest<uint32_t>() { return 0u; }
template <>
__device__ inline int32_t lowest<int32_t>() { return -0x7fffffff - 1; }
template <>
__device__ inline int64_t lowest<int64_t>() { return -0x7fffffffffffffffLL - 1; }

template <class T>
struct Add {
    using State = T;
    __device__ State identity() const { return T(0); }
    __device__ State combine(State left, State right) const { return sum_of(left, right); }
    __device__ State take(State state, T value, unsigned, index_t) const { return combine(state, value); }
};

template <class T>
struct Minimum {
    using State = T;
    __device__ State identity() const { return highest<T>(); }
    __device__ State combine(State left, State right) const { return minimum(left, right); }
    __device__ State take(State state, T value, unsigned, index_t) const { return combine(state, value); }
};

template <class T>
struct Maximum {
    using State = T;
    __device__ State identity() const { return lowest<T>(); }
    __device__ State combine(State left, State right) const { return maximum(left, right); }
    __device__ State take(State state, T value, unsigned, index_t) const { return combine(state, value); }
};

struct All {
    using State = bool;
    __device__ State identity() const { return true; }
    __device__ State combine(State left, State right) const { return left && right; }
    __device__ State take(State state, bool value, unsigned, index_t) const { return state && value; }
};

struct Any {
    using State = bool;
    __device__ State identity() const { return false; }
    __device__ State combine(State left, State right) const { return left || right; }
    __device__ State take(State state, bool value, unsigned, index_t) const { return state || value; }
};

// A combination that a program defines: `join` is a function of (left, right).
template <class T, class Join>
struct Custom {
    using State = T;
    T neutral;
    Join join;
    __device__ State identity() const { return neutral; }
    __device__ State combine(State left, State right) const { return join(left, right); }
    __device__ State take(State state, T value, unsigned, index_t) const { return join(state, value); }
};

template <class T, class Join>
__device__ inline Custom<T, Join> custom(T neutral, Join join) {
    return Custom<T, Join>{neutral, join};
}

// An extreme and where it is; `count` is 0 where nothing was seen yet.
template <class Order>
struct Extreme {
    Order rank;
    uint32_t position;
    uint32_t count;
};

template <class T, bool largest>
struct ArgExtreme {
    using Order = decltype(order_key(T()));
    using State = Extreme<Order>;
    __device__ State identity() const { return State{Order(0), 0u, 0u}; }
    __device__ State combine(State left, State right) const {
        if (right.count == 0u) return left;
        if (left.count == 0u) return right;
        if (left.rank != right.rank) return left.rank > right.rank ? left : right;
        return left.position <= right.position ? left : right;
    }
    __device__ State take(State state, T key, unsigned, index_t position) const {
        const Order order = order_key(key);
        const Order rank = largest || key != key ? order : Order(~order);
        return combine(state, State{rank, uint32_t(position), 1u});
    }
};
template <class T>
using ArgMaximum = ArgExtreme<T, true>;
template <class T>
using ArgMinimum = ArgExtreme<T, false>;

// Count, mean and sum of squared deviations.
struct MomentsState {
    double count;
    double mean;
    double m2;
};

struct Reciprocals {
    double of[STRIPS + 1];
    constexpr Reciprocals() : of() {
        for (int count = 1; count <= int(STRIPS); ++count) of[count] = 1.0 / count;
    }
};
static __constant__ const Reciprocals reciprocals;

struct Moments {
    using State = MomentsState;
    __device__ State identity() const { return State{0.0, 0.0, 0.0}; }
    __device__ State take(State state, float value, unsigned strip, index_t) const {
        const double x = value;
        const double delta = x - state.mean;
        const double mean = state.mean + delta * reciprocals.of[strip + 1];
        return State{strip + 1.0, mean, state.m2 + delta * (x - mean)};
    }
    __device__ State combine(State left, State right) const {
        if (right.count == 0.0) return left;
        if (left.count == 0.0) return right;
        const double count = left.count + right.count;
        const double delta = right.mean - left.mean;
        const double share = right.count / count;
        const double m2 = (left.m2 + right.m2) + (delta * delta) * (left.count * share);
        return State{count, left.mean + delta * share, m2};
    }
};

}  // namespace compll
