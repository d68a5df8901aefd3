// Threads, scratch memory and batches for the CPU kernels. Nothing here knows a pattern.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <new>
#include <vector>

#include <sys/mman.h>

#include <compll/scalar.h>

// A function that is one copy of machine code with everything that it calls inside.
#define COMPLL_RANGE __attribute__((noinline, flatten))

namespace compll {

constexpr int64_t SMALL = 65536;     // fewer elements than this run on one thread: waking a team costs more
constexpr int64_t SHORT_ROW = 32768; // rows up to this length are one worker's work, with everything in its cache

// --- scratch: a stack of memory per thread that is kept, so that steady state allocates nothing and faults no page ------

class Arena {
  public:
    struct Mark {
        size_t block;
        size_t used;
    };

    Mark mark() const { return {block_, used_}; }
    void release(Mark mark) {
        block_ = mark.block;
        used_ = mark.used;
    }

    void* take(size_t bytes) {
        bytes = (bytes + 63) / 64 * 64;
        while (block_ >= blocks_.size() || used_ + bytes > blocks_[block_].size) next_block(bytes);
        void* memory = blocks_[block_].memory + used_;
        used_ += bytes;
        return memory;
    }

    ~Arena() {
        for (const Block& block : blocks_) munmap(block.memory, block.size);
    }

  private:
    struct Block {
        char* memory;
        size_t size;
    };

    // Moves on to a block of at least `bytes`. Blocks behind the current one are unused, so one too small is replaced.
    void next_block(size_t bytes) {
        if (block_ < blocks_.size() && used_ > 0) block_++;
        used_ = 0;
        if (block_ < blocks_.size() && blocks_[block_].size >= bytes) return;
        const size_t size = std::max(bytes, size_t{1} << 24);
        // Reserved, not committed: sinks take room for the worst case and touch what they need.
        void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory == MAP_FAILED) throw std::bad_alloc();
        const Block block{static_cast<char*>(memory), size};
        if (block_ < blocks_.size()) {
            munmap(blocks_[block_].memory, blocks_[block_].size);
            blocks_[block_] = block;
        } else {
            blocks_.push_back(block);
        }
    }

    std::vector<Block> blocks_;
    size_t block_ = 0;
    size_t used_ = 0;
};

inline Arena& arena() {
    static thread_local Arena instance;
    return instance;
}

template <class T>
T* take(int64_t count) {
    return static_cast<T*>(arena().take(sizeof(T) * static_cast<size_t>(count)));
}

// An uninitialised array from this thread's arena, given back (with what was taken later) when it goes out of scope.
template <class T>
class Scratch {
  public:
    explicit Scratch(int64_t count) : mark_(arena().mark()), data_(take<T>(count)) {}
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;
    ~Scratch() { arena().release(mark_); }

    T* get() const { return data_; }
    T& operator[](int64_t i) const { return data_[i]; }

  private:
    Arena::Mark mark_;
    T* data_;
};

// --- threads ---------------------------------------------------------------------------------------------------------

// work(worker) for 0 .. workers - 1, right even if the system grants fewer threads.
template <class Work>
void parallel(int workers, Work&& work) {
    if (workers <= 1) {
        work(0);
        return;
    }
    std::atomic<bool> failed{false};
#pragma omp parallel for num_threads(workers) schedule(static, 1)
    for (int worker = 0; worker < workers; worker++) {
        try {
            work(worker);
        } catch (const std::bad_alloc&) {
            failed = true;
        }
    }
    if (failed) throw std::bad_alloc();
}

// One copy of the machine code per `work`, serial or not. It runs, inlined, on a copy of the function object, whose
// captured values are then known not to change, so that loops keep them in registers.
template <class Work>
COMPLL_RANGE void run_range(const Work& work, int worker, int64_t begin, int64_t end) {
    Work own = work;
    own(worker, begin, end);
}

// work(worker, begin, end): each worker one range of whole chunks, ascending, so that results can be put in order.
template <class Work>
void for_ranges(int team, int64_t length, const Work& work) {
    const int64_t chunks = (length + CHUNK - 1) / CHUNK;
    const int workers = length < SMALL ? 1 : int(std::min<int64_t>(team, chunks));
    parallel(workers, [&](int worker) {
        const int64_t begin = chunks * worker / workers * CHUNK;
        const int64_t end = std::min(chunks * (worker + 1) / workers * CHUNK, length);
        if (begin < end) run_range(work, worker, begin, end);
    });
}

// work(row, team): short rows side by side on one thread each, long ones one after another with all threads.
template <class Work>
void for_rows(int64_t rows, int64_t length, int threads, Work&& work) {
    if (rows == 1 || length > SHORT_ROW) {
        for (int64_t row = 0; row < rows; row++) work(row, threads);
        return;
    }
    const int workers = rows * length < SMALL ? 1 : int(std::min<int64_t>(threads, rows));
    parallel(workers, [&](int worker) {
        const int64_t end = rows * (worker + 1) / workers;
        for (int64_t row = rows * worker / workers; row < end; row++) work(row, 1);
    });
}

inline int strip_count(int64_t first, int64_t end) { return int(std::min<int64_t>(STRIP, end - first)); }

// run(i, threads) for `count` pieces of work of numel(i) elements: those that are a good part of all one after another
// with all threads, the others side by side, largest first. Returns 0, or 1 where memory ran out.
template <class Numel, class Run>
int run_pieces(int64_t count, int threads, Numel&& numel, Run&& run) {
    try {
        int64_t total = 0;
        for (int64_t i = 0; i < count; i++) total += numel(i);
        const int64_t wide = std::max<int64_t>(SMALL, total / (4 * std::max(threads, 1)));
        std::vector<int64_t> narrow;
        for (int64_t i = 0; i < count; i++) {
            if (numel(i) < wide) {
                narrow.push_back(i);
            } else {
                run(i, threads);
            }
        }
        std::sort(narrow.begin(), narrow.end(), [&](int64_t a, int64_t b) {
            return numel(a) > numel(b) || (numel(a) == numel(b) && a < b);
        });
        std::atomic<size_t> next{0};
        const int workers = total < SMALL ? 1 : int(std::min<int64_t>(threads, int64_t(narrow.size())));
        parallel(workers, [&](int) {
            for (size_t i = next++; i < narrow.size(); i = next++) run(narrow[i], 1);
        });
    } catch (const std::bad_alloc&) {
        return 1;
    }
    return 0;
}

// run(segment, threads) for every segment.
template <class Segment, class Run>
int run_batch(const void* segments, int64_t count, int threads, Run&& run) {
    const Segment* segment = static_cast<const Segment*>(segments);
    const auto numel = [&](int64_t i) { return segment[i].numel; };
    return run_pieces(count, threads, numel, [&](int64_t i, int team) { run(segment[i], team); });
}

}  // namespace compll
