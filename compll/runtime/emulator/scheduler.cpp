// Runs the threads of a block as fibers on one thread of the machine: barriers, warp operations, deadlocks.
//
// A thread runs until it waits at a barrier or at a warp operation, or ends; then the next ready one continues. The
// order in which ready threads continue (EMULATOR_ORDER = 0: first in, first out; 1: last in; 2: random, from
// EMULATOR_SEED) must not change what a correct kernel computes. Built without sanitizers; with -DEMULATOR_ASAN or
// -DEMULATOR_TSAN it tells the sanitizer of its kernels about every switch. It does not show what only concurrent
// blocks do: blocks run one after the other, in order.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>

#include "emulator.h"
#include "sanitizers.h"
#include "switch.h"

namespace emulator {
namespace {

constexpr int MAX_THREADS = 1024;
constexpr int WARP = 32;
constexpr size_t STACK = 64 << 10;
constexpr size_t GUARD = 4096;
constexpr int NOBODY = -1;  // the scheduler's own stack

enum class State { ready, at_barrier, at_warp, done };
enum class Order { first, last, random };

struct Request {
    WarpOperation operation;
    unsigned mask;
    uint64_t value;
    int argument;
};

struct Warp {
    unsigned size;
    unsigned arrived;  // lanes that wait at a warp operation
    unsigned ended;
    Request request[WARP];
    uint64_t result[WARP];
    char meeting;  // its address names the synchronisation
};

struct Thread {
    Place place;
    State state;
    int stack;  // NOBODY before it has started
    void* at;   // its stack pointer while it does not run
    Fiber fiber;
};

struct Block {
    Thread threads[MAX_THREADS];
    Warp warps[MAX_THREADS / WARP];
    int size, alive, at_barrier, running;
    void (*kernel)(void*);
    void* context;
    int failed;
    char barrier_meeting, start_meeting, end_meeting;
};

Block block;
char* stacks = nullptr;
int free_stacks[MAX_THREADS];
int free_stack_count;
void* scheduler_at;
Fiber scheduler_fiber;

// --- which thread is next --------------------------------------------------------------------------------------------

int ready[MAX_THREADS];
int ready_count;
int ready_first;
Order order;
uint64_t random_state;

void push_ready(int thread) {
    block.threads[thread].state = State::ready;
    ready[(ready_first + ready_count++) % MAX_THREADS] = thread;
}

int pop_ready() {
    if (ready_count == 0) return NOBODY;
    int& first = ready[ready_first];
    int& last = ready[(ready_first + ready_count - 1) % MAX_THREADS];
    --ready_count;
    if (order == Order::last) return last;
    if (order == Order::random) {
        random_state = random_state * 6364136223846793005u + 1442695040888963407u;
        int& chosen = ready[(ready_first + int((random_state >> 33) % unsigned(ready_count + 1))) % MAX_THREADS];
        const int thread = chosen;
        chosen = first;
        first = thread;
    }
    const int thread = first;
    ready_first = (ready_first + 1) % MAX_THREADS;
    return thread;
}

// --- switching -------------------------------------------------------------------------------------------------------

void thread_main();

char* stack_of(int thread) { return stacks + size_t(block.threads[thread].stack) * (STACK + GUARD) + GUARD; }

void start(int thread) {
    block.threads[thread].stack = free_stacks[--free_stack_count];
    // Stacks start at different offsets: equal ones would compete for the same lines of the cache.
    char* top = stack_of(thread) + STACK - 64 - (block.threads[thread].stack % 13) * 256;
    block.threads[thread].at = new_stack(top, thread_main);
}

void run_next(int from, int to) {
    if (from == to) return;
    if (to != NOBODY && block.threads[to].stack == NOBODY) start(to);
    const bool ends = from != NOBODY && block.threads[from].state == State::done;
    if (ends && !SANITIZER_NEEDS_STACKS) free_stacks[free_stack_count++] = block.threads[from].stack;
    block.running = to;
    emulator_current = to == NOBODY ? nullptr : &block.threads[to].place;
    Fiber& left = from == NOBODY ? scheduler_fiber : block.threads[from].fiber;
    Fiber& entered = to == NOBODY ? scheduler_fiber : block.threads[to].fiber;
    before_switch(left, entered, ends, to == NOBODY ? nullptr : stack_of(to), STACK);
    emulator_switch(from == NOBODY ? &scheduler_at : &block.threads[from].at,
                    to == NOBODY ? scheduler_at : block.threads[to].at);
    after_switch(from == NOBODY ? scheduler_fiber : block.threads[from].fiber);
}

void fail(const char* problem) {
    block.failed = 1;
    const Place& place = block.threads[block.running].place;
    std::fprintf(stderr, "compll emulator: %s: block %u, thread %u\n", problem, place.block.x, place.thread.x);
}

void release_barrier() {
    block.at_barrier = 0;
    for (int thread = 0; thread < block.size; ++thread) {
        if (block.threads[thread].state == State::at_barrier) push_ready(thread);
    }
}

void thread_main() {
    after_start();
    acquire(&block.start_meeting);
    block.kernel(block.context);
    const int thread = block.running;
    release(&block.end_meeting);
    block.threads[thread].state = State::done;
    block.warps[thread / WARP].ended |= 1u << thread % WARP;
    --block.alive;
    if (block.alive > 0 && block.at_barrier == block.alive) {
        fail("threads ended while others wait at __syncthreads");
        release_barrier();
    }
    run_next(thread, pop_ready());
    __builtin_unreachable();
}

// --- warp operations -------------------------------------------------------------------------------------------------

uint64_t result_of(const Warp& warp, int lane, unsigned votes) {
    const Request& request = warp.request[lane];
    int source = lane;
    switch (request.operation) {
        case WarpOperation::sync: return 0;
        case WarpOperation::ballot: return votes;
        case WarpOperation::shuffle: source = request.argument % WARP; break;
        case WarpOperation::shuffle_xor: source = lane ^ request.argument; break;
        case WarpOperation::shuffle_up: source = lane >= request.argument ? lane - request.argument : lane; break;
        case WarpOperation::shuffle_down: source = lane + request.argument < WARP ? lane + request.argument : lane;
    }
    if (source >= WARP || (request.mask >> source & 1) == 0) {
        fail("a shuffle reads a lane outside its mask");
        return 0;
    }
    return warp.request[source].value;
}

void complete(Warp& warp, int first_thread, unsigned mask, int caller) {
    unsigned votes = 0;
    for (int lane = 0; lane < WARP; ++lane) {
        if (mask >> lane & 1) votes |= unsigned(warp.request[lane].value & 1) << lane;
    }
    for (int lane = 0; lane < WARP; ++lane) {
        if ((mask >> lane & 1) == 0) continue;
        const bool same = warp.request[lane].operation == warp.request[caller].operation;
        if (!same || warp.request[lane].mask != mask) fail("lanes of a warp meet at different operations or masks");
        warp.result[lane] = result_of(warp, lane, votes);
        if (lane != caller) push_ready(first_thread + lane);
    }
    warp.arrived &= ~mask;
}

// --- blocks ----------------------------------------------------------------------------------------------------------

void report_deadlock(unsigned index) {
    int barrier = 0, warp = 0;
    for (int thread = 0; thread < block.size; ++thread) {
        barrier += block.threads[thread].state == State::at_barrier;
        warp += block.threads[thread].state == State::at_warp;
    }
    std::fprintf(stderr, "compll emulator: deadlock in block %u: %d threads at __syncthreads, %d at a warp operation, "
                 "%d ended\n", index, barrier, warp, block.size - block.alive);
    block.failed = 1;
}

void run_block(unsigned index, unsigned blocks) {
    block.alive = block.size;
    block.at_barrier = ready_count = ready_first = 0;
    free_stack_count = MAX_THREADS;
    for (int stack = 0; stack < MAX_THREADS; ++stack) free_stacks[stack] = MAX_THREADS - 1 - stack;
    for (int thread = 0; thread < block.size; ++thread) {
        block.threads[thread].place = {{unsigned(thread)}, {index}, {unsigned(block.size)}, {blocks}};
        block.threads[thread].stack = NOBODY;
        push_ready(thread);
    }
    for (int warp = 0; warp * WARP < block.size; ++warp) {
        const int left = block.size - warp * WARP;
        block.warps[warp].size = left < WARP ? left : WARP;
        block.warps[warp].arrived = block.warps[warp].ended = 0;
    }
    release(&block.start_meeting);
    run_next(NOBODY, pop_ready());
    acquire(&block.end_meeting);
    if (block.alive > 0) report_deadlock(index);
}

void prepare(int threads) {
    if (stacks == nullptr) {
        const size_t size = (STACK + GUARD) * MAX_THREADS;
        stacks = static_cast<char*>(
            mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
        for (int stack = 0; stack < MAX_THREADS; ++stack) mprotect(stacks + stack * (STACK + GUARD), GUARD, PROT_NONE);
    }
    const char* wanted = std::getenv("EMULATOR_ORDER");
    const char* seed = std::getenv("EMULATOR_SEED");
    order = static_cast<Order>(wanted ? std::atoi(wanted) % 3 : 0);
    random_state = seed ? std::strtoull(seed, nullptr, 10) : 1;
    block.size = threads;
    block.failed = 0;
}

}  // namespace
}  // namespace emulator

using namespace emulator;

extern "C" {

const Place* emulator_current = nullptr;

void emulator_barrier() {
    const int thread = block.running;
    if (block.alive < block.size) fail("__syncthreads after threads of the block have ended");
    release(&block.barrier_meeting);
    block.threads[thread].state = State::at_barrier;
    if (++block.at_barrier == block.alive) release_barrier();
    run_next(thread, pop_ready());
    acquire(&block.barrier_meeting);
}

uint64_t emulator_warp(WarpOperation operation, unsigned mask, uint64_t value, int argument) {
    const int thread = block.running;
    const int lane = thread % WARP;
    Warp& warp = block.warps[thread / WARP];
    if (warp.size < WARP) mask &= (1u << warp.size) - 1;
    if ((mask >> lane & 1) == 0) fail("a warp operation whose mask lacks the calling lane");
    if ((mask & warp.ended) != 0) fail("a warp operation names lanes that have ended");
    mask &= ~warp.ended;
    warp.request[lane] = {operation, mask, value, argument};
    warp.arrived |= 1u << lane;
    release(&warp.meeting);
    if ((warp.arrived & mask) == mask) {
        complete(warp, thread - lane, mask, lane);
    } else {
        block.threads[thread].state = State::at_warp;
        run_next(thread, pop_ready());
    }
    acquire(&warp.meeting);
    return warp.result[lane];
}

// 0 where every block ran to its end without a complaint.
int emulator_run(unsigned blocks, unsigned threads, void (*kernel)(void*), void* context) {
    if (threads == 0 || threads > MAX_THREADS) return 1;
    prepare(int(threads));
    block.kernel = kernel;
    block.context = context;
    Fibers fibers(scheduler_fiber, [](int thread) -> Fiber& { return block.threads[thread].fiber; }, int(threads));
    for (unsigned index = 0; index < blocks && !block.failed; ++index) run_block(index, blocks);
    return block.failed;
}

}  // extern "C"
