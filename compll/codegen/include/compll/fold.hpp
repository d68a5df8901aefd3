// Reductions on the tree of docs/numerics.md, section 4: 64 lanes inside a chunk of 4096, folded by halves; chunk results
// by the same rule. The tree does not depend on the number of threads.
#pragma once

#include <limits>
#include <type_traits>

#include <compll/runtime.hpp>

namespace compll {

// --- what is combined: Value comes from the body, State is a partial result, Result is what is stored -------------------

template <class T>
struct Add {
    using Value = T;
    using State = T;
    T identity() const { return T(0); }
    T lift(T x, int64_t) const { return x; }
    T combine(T a, T b) const {
        if constexpr (std::is_same_v<T, int32_t> || std::is_same_v<T, int64_t>) return wrap_add(a, b);
        return T(a + b);
    }
    T result(T total) const { return total; }
};

// Minimum and maximum of integers; floats have their own below.
template <class T, bool LARGEST>
struct Limit {
    using Value = T;
    using State = T;
    T identity() const { return LARGEST ? std::numeric_limits<T>::lowest() : std::numeric_limits<T>::max(); }
    T lift(T x, int64_t) const { return x; }
    T combine(T a, T b) const { return LARGEST ? maximum(a, b) : minimum(a, b); }
    T result(T total) const { return total; }
};

// f32 by way of integers that compare as floats do (-0 < +0), a NaN being the extreme: one instruction to combine.
template <bool LARGEST>
struct Limit<float, LARGEST> {
    using Value = float;
    using State = int32_t;
    static constexpr int32_t HIGHEST = 0x7fffffff;
    static int32_t order(float x) {
        const int32_t b = int32_t(raw_bits(x));
        return b ^ ((b >> 31) & HIGHEST);
    }
    int32_t identity() const { return order(LARGEST ? -infinity_f32() : infinity_f32()); }
    int32_t lift(float x, int64_t) const { return x == x ? order(x) : LARGEST ? HIGHEST : -HIGHEST - 1; }
    int32_t combine(int32_t a, int32_t b) const { return LARGEST ? maximum(a, b) : minimum(a, b); }
    float result(int32_t total) const { return from_bits(uint32_t(total ^ ((total >> 31) & HIGHEST))); }
};

template <bool LARGEST>
struct Limit<double, LARGEST> {
    using Value = double;
    using State = double;
    double identity() const { return LARGEST ? -infinity_f64() : infinity_f64(); }
    double lift(double x, int64_t) const { return x; }
    double combine(double a, double b) const { return LARGEST ? maximum(a, b) : minimum(a, b); }
    double result(double total) const { return total; }
};

template <class T>
using Min = Limit<T, false>;
template <class T>
using Max = Limit<T, true>;

struct And {
    using Value = bool;
    using State = bool;
    bool identity() const { return true; }
    bool lift(bool x, int64_t) const { return x; }
    bool combine(bool a, bool b) const { return a & b; }
    bool result(bool total) const { return total; }
};

struct Or {
    using Value = bool;
    using State = bool;
    bool identity() const { return false; }
    bool lift(bool x, int64_t) const { return x; }
    bool combine(bool a, bool b) const { return a | b; }
    bool result(bool total) const { return total; }
};

// The lowest position of the largest (or smallest) value, NaN being the extreme; 0 of nothing.
template <class T, bool LARGEST>
struct Extreme {
    using Order = decltype(order_key(T()));
    struct State {
        Order order;
        uint32_t at;
    };
    using Value = T;
    State identity() const { return {0, 0xffffffffu}; }
    State lift(T x, int64_t position) const {
        const Order order = LARGEST || x != x ? order_key(x) : Order(~order_key(x));
        return {order, uint32_t(position)};
    }
    State combine(const State& a, const State& b) const {
        const bool right = b.order > a.order || (b.order == a.order && b.at < a.at);
        return right ? b : a;
    }
    uint32_t result(const State& total) const { return total.at == 0xffffffffu ? 0u : total.at; }
};

// Mean and sum of squared deviations in f64 (Chan, Golub, LeVeque).
struct Moments {
    struct State {
        double n;
        double mean;
        double m2;
    };
    using Value = float;
    State identity() const { return {0.0, 0.0, 0.0}; }
    State combine(const State& a, const State& b) const {
        if (b.n == 0.0) return a;
        if (a.n == 0.0) return b;
        const double n = a.n + b.n;
        const double delta = b.mean - a.mean;
        const double t = b.n / n;
        return {n, a.mean + delta * t, (a.m2 + b.m2) + (delta * delta) * (a.n * t)};
    }
    State result(const State& total) const { return total; }
};

// --- the tree ----------------------------------------------------------------------------------------------------------

template <class C>
typename C::State fold_lanes(const C& c, typename C::State* lane) {
    for (int h = STRIP / 2; h >= 1; h /= 2) {
        for (int i = 0; i < h; i++) lane[i] = c.combine(lane[i], lane[i + h]);
    }
    return lane[0];
}

// The lanes of one chunk; strips are added in order and only the last may be short.
template <class C>
class Lanes {
  public:
    explicit Lanes(const C& c) : c_(c) {
        for (int i = 0; i < STRIP; i++) lane_[i] = c_.identity();
    }
    void add(const typename C::Value* values, int count, int64_t first) {
        if (count == STRIP) {
#pragma omp simd
            for (int i = 0; i < STRIP; i++) lane_[i] = c_.combine(lane_[i], c_.lift(values[i], first + i));
        } else {
            for (int i = 0; i < count; i++) lane_[i] = c_.combine(lane_[i], c_.lift(values[i], first + i));
        }
    }
    typename C::State total() { return fold_lanes(c_, lane_); }

  private:
    alignas(64) typename C::State lane_[STRIP];  // as strips are: what is stored as one vector is loaded as one
    C c_;
};

template <>
class Lanes<Moments> {
  public:
    explicit Lanes(const Moments&) {
        for (int i = 0; i < STRIP; i++) mean_[i] = m2_[i] = 0.0;
    }
    void add(const float* values, int count, int64_t) {
        strips_++;
        last_ = count;
        const double share = 1.0 / strips_;
#pragma omp simd
        for (int i = 0; i < count; i++) {
            const double x = double(values[i]);
            const double delta = x - mean_[i];
            mean_[i] = mean_[i] + delta * share;
            m2_[i] = m2_[i] + delta * (x - mean_[i]);
        }
    }
    Moments::State total() const {
        Moments::State lane[STRIP];
        for (int i = 0; i < STRIP; i++) lane[i] = {double(strips_ - (i < last_ ? 0 : 1)), mean_[i], m2_[i]};
        return fold_lanes(Moments(), lane);
    }

  private:
    alignas(64) double mean_[STRIP];
    alignas(64) double m2_[STRIP];
    int strips_ = 0;
    int last_ = STRIP;
};

// One reduction of `length` elements: chunk results from any thread, then the rest of the tree.
template <class C>
class Fold {
  public:
    Fold(int64_t length, const C& c) : c_(c), chunks_((length + CHUNK - 1) / CHUNK), part_(chunks_) {}

    void put(int64_t first, Lanes<C>& lanes) { part_[first / CHUNK] = lanes.total(); }

    auto result() {
        int64_t left = chunks_;
        while (left > 1) {
            const int64_t above = (left + CHUNK - 1) / CHUNK;
            for (int64_t chunk = 0; chunk < above; chunk++) {
                part_[chunk] = fold_chunk(chunk * CHUNK, std::min((chunk + 1) * CHUNK, left));
            }
            left = above;
        }
        return c_.result(left == 0 ? c_.identity() : part_[0]);
    }

  private:
    typename C::State fold_chunk(int64_t first, int64_t end) {
        typename C::State lane[STRIP];
        for (int i = 0; i < STRIP; i++) lane[i] = c_.identity();
        for (int64_t j = first; j < end; j++) lane[j % STRIP] = c_.combine(lane[j % STRIP], part_[j]);
        return fold_lanes(c_, lane);
    }

    C c_;
    int64_t chunks_;
    Scratch<typename C::State> part_;
};

}  // namespace compll
