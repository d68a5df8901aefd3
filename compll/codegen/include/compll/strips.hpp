// The strips of a range: what generated sweeps walk in.
#pragma once

#include <type_traits>

#include <compll/scalar.h>

namespace compll {

// body(first, count) for every strip. The count of a whole one is a constant, so that its loops have no ends to look after
// and its arrays become registers.
template <class Body>
COMPLL_FN void for_strips(int64_t begin, int64_t end, const Body& body) {
    int64_t first = begin;
    for (; first + STRIP <= end; first += STRIP) body(first, std::integral_constant<int, STRIP>());
    if (first < end) body(first, int(end - first));
}

}  // namespace compll
