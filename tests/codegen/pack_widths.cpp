// Packs and unpacks through compll/pack.h and compares with the definition: element i is bits [i * width, (i + 1) * width).
#include <cstdio>
#include <cstdlib>

#include <compll/pack.h>

template <int WIDTH>
static int failures() {
    const int count = WIDTH <= 8 ? 8 : 4, field = WIDTH <= 8 ? 8 : 16;
    const uint64_t used = count * WIDTH >= 64 ? ~uint64_t{0} : (uint64_t{1} << count * WIDTH) - 1u;
    int wrong = 0;
    for (int trial = 0; trial < 1000; trial++) {
        uint64_t codes = 0, wanted = 0;
        for (int i = 0; i < count; i++) {
            const uint64_t code = trial == 0 ? (1u << WIDTH) - 1u : uint64_t(rand()) & ((1u << WIDTH) - 1u);
            codes |= code << i * field;
            wanted |= code << i * WIDTH;
        }
        const uint64_t foreign = uint64_t(rand()) * 0x9E3779B97F4A7C15u & ~used;  // bits of the next codes
        uint64_t packed, unpacked;
        if constexpr (WIDTH <= 8) {
            packed = compll::pack_bytes<WIDTH>(codes), unpacked = compll::unpack_bytes<WIDTH>(packed | foreign);
        } else {
            packed = compll::pack_halves<WIDTH>(codes), unpacked = compll::unpack_halves<WIDTH>(packed | foreign);
        }
        wrong += packed != wanted || unpacked != codes;
    }
    if (wrong) std::printf("width %d: %d of 1000 wrong\n", WIDTH, wrong);
    return wrong;
}

int main() {
    const int wrong = failures<1>() + failures<2>() + failures<3>() + failures<4>() + failures<5>() + failures<6>() +
                      failures<7>() + failures<8>() + failures<9>() + failures<10>() + failures<11>() + failures<12>() +
                      failures<13>() + failures<14>() + failures<15>() + failures<16>();
    return wrong != 0;
}
