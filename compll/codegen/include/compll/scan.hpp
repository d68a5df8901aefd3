// Prefix combinations in the order of docs/numerics.md, section 5: strips of 64 inside chunks of 4096.
#pragma once

#include <compll/fold.hpp>

namespace compll {

// One scan of `length` elements. Chunks are added from any thread, their strips in order; `complete` joins them.
template <class C, bool EXCLUSIVE>
class Scan {
  public:
    using State = typename C::State;

    Scan(int64_t length, const C& c)
        : c_(c), chunks_((length + CHUNK - 1) / CHUNK), total_(chunks_), inside_(length) {}

    State start() const { return c_.identity(); }

    // The strip at `first`; `carry` is what the strips of this chunk before it combine to.
    void add(int64_t first, int count, const typename C::Value* values, State& carry) {
        State local = c_.identity();
        for (int i = 0; i < count; i++) {
            const State next = c_.combine(local, c_.lift(values[i], first + i));
            inside_[first + i] = c_.combine(carry, EXCLUSIVE ? local : next);
            local = next;
        }
        carry = c_.combine(carry, local);
    }

    void put(int64_t first, const State& carry) { total_[first / CHUNK] = carry; }

    void complete() {
        State carry = c_.identity();
        for (int64_t chunk = 0; chunk < chunks_; chunk++) {
            const State next = c_.combine(carry, total_[chunk]);
            total_[chunk] = carry;
            carry = next;
        }
    }

    auto at(int64_t i) const { return c_.result(c_.combine(total_[i / CHUNK], inside_[i])); }

  private:
    C c_;
    int64_t chunks_;
    Scratch<State> total_;
    Scratch<State> inside_;
};

}  // namespace compll
