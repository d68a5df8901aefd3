// Ordered compaction: the positions of a space at which a predicate holds, with the values that go with them.
#pragma once

#include <tuple>
#include <utility>

#include <compll/mask.hpp>
#include <compll/runtime.hpp>

namespace compll {

// Lists that workers append to side by side, each from the start of its own range, and that are then joined in order.
// Room is taken for every position; only what is used is ever touched.
template <class... V>
class Lists {
  public:
    Lists(int64_t length, int team)
        : team_(team), worker_(team), at_(length), values_(take<V>(length)...) {
        for (int w = 0; w < team; w++) worker_[w] = {0, 0};
    }

    void start(int worker, int64_t begin) { worker_[worker] = {begin, 0}; }
    int64_t end(int worker) const { return worker_[worker].begin + worker_[worker].count; }
    void push(int worker, int64_t position, const V&... values) {
        const int64_t slot = end(worker);
        at_[slot] = position;
        set(slot, std::index_sequence_for<V...>(), values...);
        worker_[worker].count++;
    }

    int64_t join() {
        int64_t total = 0;
        for (int w = 0; w < team_; w++) {
            move(total, worker_[w].begin, worker_[w].count, std::index_sequence_for<V...>());
            total += worker_[w].count;
        }
        return total;
    }

    // Instead of pushing: a strip of values at slots equal to their positions.
    void store(int64_t first, int count, const V*... values) {
        copy_in(first, count, std::index_sequence_for<V...>(), values...);
    }

    int64_t at(int64_t slot) const { return at_[slot]; }
    template <size_t I>
    auto value(int64_t slot) const { return std::get<I>(values_)[slot]; }
    template <size_t I>
    auto* values() const { return std::get<I>(values_); }

  private:
    struct alignas(64) Worker {
        int64_t begin;
        int64_t count;
    };

    template <size_t... I>
    void set([[maybe_unused]] int64_t slot, std::index_sequence<I...>, const V&... values) {
        ((std::get<I>(values_)[slot] = values), ...);
    }
    template <size_t... I>
    void copy_in(int64_t first, int count, std::index_sequence<I...>, const V*... values) {
        (std::copy_n(values, count, std::get<I>(values_) + first), ...);
    }
    template <size_t... I>
    void move(int64_t to, int64_t from, int64_t count, std::index_sequence<I...>) {
        std::copy_n(at_.get() + from, count, at_.get() + to);
        (std::copy_n(std::get<I>(values_) + from, count, std::get<I>(values_) + to), ...);
    }

    int team_;
    Scratch<Worker> worker_;
    Scratch<int64_t> at_;
    std::tuple<V*...> values_;  // given back with at_, which was taken before
};

// At most `limit` matches, of more the first ones in cyclic order from (step * limit) mod length, listed ascending.
template <class... V>
class Keep {
  public:
    Keep(int64_t length, int64_t limit, int team) : length_(length), limit_(limit), list_(length, team) {}

    void start(int worker, int64_t begin) { list_.start(worker, begin); }

    void add(int worker, int64_t first, int count, const bool* matches, const V*... carried) {
        for (uint64_t mask = mask_of(matches, count); mask != 0; mask &= mask - 1u) {
            const int i = __builtin_ctzll(mask);
            list_.push(worker, first + i, carried[i]...);
        }
    }

    void complete(uint64_t step) {
        matches_ = list_.join();
        if (matches_ <= limit_ || length_ == 0) return;
        const uint64_t length = uint64_t(length_);
        const unsigned __int128 product = (unsigned __int128)(step % length) * (uint64_t(limit_) % length);
        const int64_t begin = int64_t(product % length);
        int64_t skipped = 0;  // matches before the beginning: binary search, positions ascend
        for (int64_t end = matches_; skipped < end;) {
            const int64_t middle = skipped + (end - skipped) / 2;
            (list_.at(middle) < begin ? skipped : end) = middle + (list_.at(middle) < begin ? 1 : 0);
        }
        wrapped_ = std::max<int64_t>(0, skipped + limit_ - matches_);
        gap_ = skipped - wrapped_;
    }

    uint32_t count() const { return uint32_t(std::min(matches_, limit_)); }
    uint32_t cut() const { return uint32_t(matches_) - count(); }

    // The j-th kept match: the first `wrapped_` ones, then those from the beginning on.
    int64_t position(int64_t j) const { return list_.at(slot(j)); }
    template <size_t I>
    auto value(int64_t j) const { return list_.template value<I>(slot(j)); }

  private:
    int64_t slot(int64_t j) const { return j < wrapped_ ? j : j + gap_; }

    int64_t length_;
    int64_t limit_;
    int64_t matches_ = 0;
    int64_t wrapped_ = 0;
    int64_t gap_ = 0;
    Lists<V...> list_;
};

}  // namespace compll
