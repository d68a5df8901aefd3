// Exact selection of the k largest keys in one pass over memory (docs/numerics.md, section 6).
//
// A sample of the keys gives a threshold that about 1.3 k keys reach. The pass that evaluates the body appends those as
// candidates; the k-th largest is found among them. Too few (the sample misled): a further pass, over what memory holds
// after the writes, with a lower threshold. Of keys that tie with the threshold a worker needs no more than its first k,
// so constant gradients and zeros cost no more memory than others.
// Short spaces keep every key instead and find their candidates in the cache, by the threshold of the one before.
#pragma once

#include <array>

#include <compll/filter.hpp>
#include <compll/largest.hpp>

namespace compll {

constexpr int64_t SAMPLE = 16384;  // positions, in groups of 8 neighbours
constexpr int GROUP = 8;

// How many of a sample must reach the threshold so that k of the whole do, but for chances of a few sigma.
inline int64_t sample_rank(int64_t sampled, int64_t length, int64_t k, double sigmas, int64_t least) {
    const double expected = double(k) * double(sampled) / double(length);
    return int64_t(expected + sigmas * square_root(expected)) + least;
}

template <class K, class... V>
class Top {
    using Order = decltype(order_key(K()));

  public:
    Top(int64_t length, int64_t k, int team)
        : length_(length), k_(std::min(k, length)), team_(team), short_(length <= SHORT_ROW), chosen_(k_), ties_(team),
          sample_(SAMPLE), list_(length, team) {}

    // Before any write: keys(first, count, out) evaluates GROUP keys.
    template <class Keys>
    void sample(Keys&& keys) {
        if (short_) return;
        sampled_ = std::min(SAMPLE, length_ / 16) / GROUP * GROUP;
        const int64_t stride = length_ / (sampled_ / GROUP);
        for (int64_t j = 0; j < sampled_; j += GROUP) {
            // Hashed places inside the strides, so that no period of the data is met.
            const uint64_t hash = (uint64_t(j) * 0x9e3779b97f4a7c15u) >> 32;
            K group[STRIP];
            keys(j / GROUP * stride + int64_t(hash % uint64_t(stride - GROUP + 1)), GROUP, group);
            for (int i = 0; i < GROUP; i++) sample_[j + i] = order_key(group[i]);
        }
        lower_threshold(1);
    }

    void start(int worker, int64_t begin) {
        list_.start(worker, begin);
        ties_[worker] = {0, 0};
    }

    void add(int worker, int64_t first, int count, const K* keys, const V*... carried) {
        if (short_) {
            list_.store(first, count, keys, carried...);
            return;
        }
        for (uint64_t mask = mask_not_below(keys, count, threshold_); mask != 0; mask &= mask - 1u) {
            const int i = __builtin_ctzll(mask);
            if (keys[i] == threshold_ && ++ties_[worker].equal > k_) continue;
            if (keys[i] != keys[i] && ++ties_[worker].nan > k_) continue;
            list_.push(worker, first + i, keys[i], carried[i]...);
        }
    }

    // After the pass; again(first, count, keys, carried..) evaluates a strip from what the pass has left in memory.
    template <class Again>
    void complete(Again&& again) {
        if (short_) {
            complete_short();
            return;
        }
        int64_t candidates = list_.join();
        while (candidates < k_) {
            lower_threshold(8);
            pass(again);
            candidates = list_.join();
        }
        choose(candidates, [](int64_t j) { return j; });
    }

    int64_t count() const { return k_; }
    int64_t position(int64_t j) const { return short_ ? chosen_[j] : list_.at(chosen_[j]); }
    template <size_t I>
    auto value(int64_t j) const { return list_.template value<I + 1>(chosen_[j]); }
    K kth() const { return k_ == 0 ? K(0) : key_of_order<K>(kth_); }

  private:
    struct alignas(64) Ties {
        int64_t equal;
        int64_t nan;
    };

    void lower_threshold(int64_t factor) {
        rank_ = factor == 1 ? sample_rank(sampled_, length_, k_, 4.0, 8) : rank_ * factor;
        Scratch<Order> orders(sampled_);
        std::copy_n(sample_.get(), sampled_, orders.get());
        threshold_ = threshold_of<K>(orders.get(), sampled_, rank_);
    }

    template <class Again>
    void pass(Again&& again) {
        for (int worker = 0; worker < team_; worker++) start(worker, 0);
        for_ranges(team_, length_, [&](int worker, int64_t begin, int64_t end) {
            start(worker, begin);
            K keys[STRIP];
            std::tuple<std::array<V, STRIP>...> carried;
            for (int64_t first = begin; first < end; first += STRIP) {
                const int count = strip_count(first, end);
                std::apply([&](auto&... v) { again(first, count, keys, v.data()...); }, carried);
                std::apply([&](auto&... v) { add(worker, first, count, keys, v.data()...); }, carried);
            }
        });
    }

    // Every key is in list_ at its own position. The row before tells where to cut this one; a sample does where that
    // misleads.
    void complete_short() {
        Scratch<int64_t> slots(length_);
        threshold_ = hint_;
        int64_t candidates = above_threshold(slots.get());
        if (candidates < k_ || candidates > 4 * k_ + STRIP) candidates = cut_by_sample(slots.get());
        choose(candidates, [&](int64_t j) { return slots[j]; });
        if (std::is_floating_point<K>::value) hint_ = kth() - K(0.15) * (kth() < 0 ? -kth() : kth());
    }

    int64_t cut_by_sample(int64_t* slots) {
        const K* keys = list_.template values<0>();
        sampled_ = std::min<int64_t>(length_ / 16, 1024);
        rank_ = sampled_ < 32 ? sampled_ + 1 : sample_rank(sampled_, length_, k_, 2.0, 3);
        for (;; rank_ *= 8) {  // a miss costs little here
            for (int64_t j = 0; j < sampled_; j++) sample_[j] = order_key(keys[j * (length_ / sampled_)]);
            threshold_ = threshold_of<K>(sample_.get(), sampled_, rank_);
            const int64_t candidates = above_threshold(slots);
            if (candidates >= k_) return candidates;
        }
    }

    int64_t above_threshold(int64_t* slots) const {
        const K* keys = list_.template values<0>();
        int64_t candidates = 0;
        for (int64_t first = 0; first < length_; first += STRIP) {
            uint64_t mask = mask_not_below(keys + first, strip_count(first, length_), threshold_);
            for (; mask != 0; mask &= mask - 1u) slots[candidates++] = first + __builtin_ctzll(mask);
        }
        return candidates;
    }

    // The k largest of the candidates, which ascend by position: the first of those that tie with the k-th.
    template <class Slot>
    void choose(int64_t candidates, Slot&& slot) {
        if (k_ == 0) return;
        const K* keys = list_.template values<0>();
        Scratch<Order> order(candidates);
        for (int64_t j = 0; j < candidates; j++) order[j] = order_key(keys[slot(j)]);
        kth_ = nth_largest(order.get(), k_, candidates);
        int64_t ties = k_;
        for (int64_t j = 0; j < candidates; j++) ties -= order_key(keys[slot(j)]) > kth_;
        int64_t chosen = 0;
        for (int64_t first = 0; first < candidates; first += STRIP) {
            const int count = strip_count(first, candidates);
            bool above[STRIP];
            bool equal[STRIP];
            for (int i = 0; i < count; i++) {
                const Order own = order_key(keys[slot(first + i)]);
                above[i] = own > kth_;
                equal[i] = own == kth_;
            }
            uint64_t mask = mask_of(above, count);
            for (uint64_t tied = mask_of(equal, count); tied != 0 && ties > 0; tied &= tied - 1u, ties--) {
                mask |= tied & (0u - tied);
            }
            for (; mask != 0; mask &= mask - 1u) chosen_[chosen++] = slot(first + __builtin_ctzll(mask));
        }
    }

    // Where to cut the next short row; what is chosen never depends on it.
    inline static thread_local K hint_ = std::numeric_limits<K>::max();

    int64_t length_;
    int64_t k_;
    int team_;
    bool short_;
    int64_t sampled_ = 0;
    int64_t rank_ = 0;
    K threshold_ = lowest_key<K>();
    Order kth_ = 0;
    Scratch<int64_t> chosen_;
    Scratch<Ties> ties_;
    Scratch<Order> sample_;
    Lists<K, V...> list_;
};

}  // namespace compll
