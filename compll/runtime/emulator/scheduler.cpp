// Runs the threads of blocks as fibers on one thread of the machine: barriers, warp operations, deadlocks.
//
// A thread runs until it waits at a barrier, at a warp operation or for another block, or ends; then the next ready one
// continues. The order in which ready threads continue (EMULATOR_ORDER = 0: first in, first out; 1: last in; 2: random,
// from EMULATOR_SEED) must not change what a correct kernel computes. The blocks of a cooperative launch are alive
// together; those of others run one after the other, in order. Built without sanitizers; with -DEMULATOR_ASAN or
// -DEMULATOR_TSAN it tells the sanitizer of its kernels about every switch and, for races, about every fence.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>

#include "emulator.h"
#include "sanitizers.h"
#include "switch.h"

namespace emulator {
namespace {

constexpr int MAX_ALIVE = 2048;  // threads of all blocks that are alive
constexpr int MAX_BLOCKS = 8;    // that are alive
constexpr int WARP = 32;
constexpr size_t STACK = 64 << 10;
constexpr size_t GUARD = 4096;
constexpr int NOBODY = -1;  // the scheduler's own stack

enum class State { ready, at_barrier, at_warp, sleeping, done };
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

struct Block {
    int first;  // of its threads
    int alive, at_barrier;
    Kernel* kernel;
    char barrier_meeting;
};

struct Thread {
    Place place;
    State state;
    Block* block;
    int stack;  // NOBODY before it has started
    void* at;   // its stack pointer while it does not run
    Fiber fiber;
    bool fenced;     // it has met a fence, and no atomic operation since
    void* observed;  // what its last atomic operation was on, if it has met no fence since
};

struct Launch {
    void* context;
    int size;  // threads of a block
    int blocks_alive, alive, failed, running;
    uint64_t events;  // how often a thread got ahead
    char start_meeting, end_meeting;
};

Launch launch;
Block blocks[MAX_BLOCKS];
Thread threads[MAX_ALIVE];
Warp warps[MAX_ALIVE / WARP + MAX_BLOCKS];
char* stacks = nullptr;
bool guarded[MAX_ALIVE];  // by stack
int free_stacks[MAX_ALIVE];
int free_stack_count;
void* scheduler_at;
Fiber scheduler_fiber;

Thread& current() { return threads[launch.running]; }
int lane_of(int thread) { return (thread - threads[thread].block->first) % WARP; }
Warp& warp_of(int thread) {
    const Block& block = *threads[thread].block;
    const int warps_each = (launch.size + WARP - 1) / WARP;
    return warps[(&block - blocks) * warps_each + (thread - block.first) / WARP];
}

// --- which thread is next --------------------------------------------------------------------------------------------

int ready[MAX_ALIVE];
int ready_count;
int ready_first;
int sleepers[MAX_ALIVE];
int sleeper_count;
uint64_t events_at_waking;
Order order;
uint64_t random_state;

void push_ready(int thread) {
    threads[thread].state = State::ready;
    ready[(ready_first + ready_count++) % MAX_ALIVE] = thread;
}

// Wakes those who wait for other blocks when nobody else can run; not if nobody has got ahead since the last time.
void wake_sleepers() {
    if (launch.events == events_at_waking) return;
    events_at_waking = launch.events;
    for (int at = 0; at < sleeper_count; ++at) push_ready(sleepers[at]);
    sleeper_count = 0;
}

int pop_ready() {
    if (ready_count == 0) wake_sleepers();
    if (ready_count == 0) return NOBODY;
    int& first = ready[ready_first];
    int& last = ready[(ready_first + ready_count - 1) % MAX_ALIVE];
    --ready_count;
    if (order == Order::last) return last;
    if (order == Order::random) {
        random_state = random_state * 6364136223846793005u + 1442695040888963407u;
        int& chosen = ready[(ready_first + int((random_state >> 33) % unsigned(ready_count + 1))) % MAX_ALIVE];
        const int thread = chosen;
        chosen = first;
        first = thread;
    }
    const int thread = first;
    ready_first = (ready_first + 1) % MAX_ALIVE;
    return thread;
}

// --- switching -------------------------------------------------------------------------------------------------------

void thread_main();

char* stack_of(int thread) { return stacks + size_t(threads[thread].stack) * (STACK + GUARD) + GUARD; }

void start(int thread) {
    const int stack = threads[thread].stack = free_stacks[--free_stack_count];
    if (!guarded[stack]) guarded[stack] = mprotect(stack_of(thread) - GUARD, GUARD, PROT_NONE) == 0;
    // Stacks start at different offsets: equal ones would compete for the same lines of the cache.
    char* top = stack_of(thread) + STACK - 64 - (stack % 13) * 256;
    threads[thread].at = new_stack(top, thread_main);
}

void run_next(int from, int to) {
    if (from == to) return;
    if (to != NOBODY && threads[to].stack == NOBODY) start(to);
    const bool ends = from != NOBODY && threads[from].state == State::done;
    if (ends && !SANITIZER_NEEDS_STACKS) free_stacks[free_stack_count++] = threads[from].stack;
    launch.running = to;
    emulator_current = to == NOBODY ? nullptr : &threads[to].place;
    Fiber& left = from == NOBODY ? scheduler_fiber : threads[from].fiber;
    Fiber& entered = to == NOBODY ? scheduler_fiber : threads[to].fiber;
    before_switch(left, entered, ends, to == NOBODY ? nullptr : stack_of(to), STACK);
    emulator_switch(from == NOBODY ? &scheduler_at : &threads[from].at, to == NOBODY ? scheduler_at : threads[to].at);
    after_switch(from == NOBODY ? scheduler_fiber : threads[from].fiber);
}

void fail(const char* problem) {
    launch.failed = 1;
    const Place& place = current().place;
    std::fprintf(stderr, "compll emulator: %s: block %u, thread %u\n", problem, place.block.x, place.thread.x);
}

void release_barrier(Block& block) {
    block.at_barrier = 0;
    ++launch.events;
    for (int thread = block.first; thread < block.first + launch.size; ++thread) {
        if (threads[thread].state == State::at_barrier) push_ready(thread);
    }
}

void thread_main() {
    after_start();
    acquire(&launch.start_meeting);
    Block& block = *current().block;
    block.kernel(launch.context);
    const int thread = launch.running;
    release(&launch.end_meeting);
    threads[thread].state = State::done;
    warp_of(thread).ended |= 1u << lane_of(thread);
    --block.alive;
    --launch.alive;
    ++launch.events;
    if (block.alive > 0 && block.at_barrier == block.alive) {
        fail("threads ended while others wait at __syncthreads");
        release_barrier(block);
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
    ++launch.events;
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

void report_deadlock() {
    int barrier = 0, warp = 0, sleeping = 0;
    unsigned index = 0;
    for (int thread = launch.blocks_alive * launch.size - 1; thread >= 0; --thread) {
        const State state = threads[thread].state;
        barrier += state == State::at_barrier;
        warp += state == State::at_warp;
        sleeping += state == State::sleeping;
        if (state != State::done) index = threads[thread].place.block.x;
    }
    std::fprintf(stderr, "compll emulator: deadlock in block %u: %d threads at __syncthreads, %d at a warp operation, "
                 "%d wait for other blocks, %d ended\n", index, barrier, warp, sleeping,
                 launch.blocks_alive * launch.size - launch.alive);
    launch.failed = 1;
}

void prepare_block(int slot, unsigned index, unsigned count, Kernel* kernel) {
    Block& block = blocks[slot];
    block.first = slot * launch.size;
    block.alive = launch.size;
    block.at_barrier = 0;
    block.kernel = kernel;
    for (int at = 0; at < launch.size; ++at) {
        Thread& thread = threads[block.first + at];
        thread.place = {{unsigned(at)}, {index}, {unsigned(launch.size)}, {count}};
        thread.block = &block;
        thread.stack = NOBODY;
        thread.fenced = false;
        thread.observed = nullptr;
        push_ready(block.first + at);
    }
    for (int at = 0; at < launch.size; at += WARP) {
        const int left = launch.size - at;
        Warp& warp = warp_of(block.first + at);
        warp.size = left < WARP ? left : WARP;
        warp.arrived = warp.ended = 0;
    }
}

// Runs blocks [first, first + alive) of `count`, all alive together.
void run_blocks(unsigned first, unsigned alive, unsigned count, Kernel* const* kernels) {
    launch.blocks_alive = int(alive);
    launch.alive = int(alive) * launch.size;
    ready_count = ready_first = sleeper_count = 0;
    events_at_waking = ~uint64_t(0);
    free_stack_count = MAX_ALIVE;
    for (int stack = 0; stack < MAX_ALIVE; ++stack) free_stacks[stack] = MAX_ALIVE - 1 - stack;
    for (unsigned slot = 0; slot < alive; ++slot) prepare_block(int(slot), first + slot, count, kernels[slot]);
    release(&launch.start_meeting);
    run_next(NOBODY, pop_ready());
    acquire(&launch.end_meeting);
    if (launch.alive > 0) report_deadlock();
}

void prepare(int size) {
    if (stacks == nullptr) {
        const size_t bytes = (STACK + GUARD) * MAX_ALIVE;
        stacks = static_cast<char*>(
            mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    }
    const char* wanted = std::getenv("EMULATOR_ORDER");
    const char* seed = std::getenv("EMULATOR_SEED");
    order = static_cast<Order>(wanted ? std::atoi(wanted) % 3 : 0);
    random_state = seed ? std::strtoull(seed, nullptr, 10) : 1;
    launch.size = size;
    launch.failed = 0;
    launch.events = 0;
}

}  // namespace
}  // namespace emulator

using namespace emulator;

extern "C" {

const Place* emulator_current = nullptr;

void emulator_barrier() {
    const int thread = launch.running;
    Block& block = *current().block;
    if (block.alive < launch.size) fail("__syncthreads after threads of the block have ended");
    release(&block.barrier_meeting);
    threads[thread].state = State::at_barrier;
    if (++block.at_barrier == block.alive) release_barrier(block);
    run_next(thread, pop_ready());
    acquire(&block.barrier_meeting);
}

uint64_t emulator_warp(WarpOperation operation, unsigned mask, uint64_t value, int argument) {
    const int thread = launch.running;
    const int lane = lane_of(thread);
    Warp& warp = warp_of(thread);
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
        threads[thread].state = State::at_warp;
        run_next(thread, pop_ready());
    }
    acquire(&warp.meeting);
    return warp.result[lane];
}

void emulator_sleep() {
    const int thread = launch.running;
    threads[thread].state = State::sleeping;
    sleepers[sleeper_count++] = thread;
    run_next(thread, pop_ready());
}

// A fence and an atomic operation behind it pass on what came before, to whoever makes an atomic operation on the same
// word and meets a fence behind that.
void emulator_fence() {
    Thread& thread = current();
    if (thread.observed != nullptr) acquire(thread.observed);
    thread.observed = nullptr;
    thread.fenced = true;
}

void emulator_atomic(void* place) {
    Thread& thread = current();
    if (thread.fenced) release(place);
    thread.fenced = false;
    thread.observed = place;
}

// 0 where every block ran to its end without a complaint. `kernels` has one entry for each block that is alive: all
// of `alive` blocks together, or one after the other where that is 1.
int emulator_run(unsigned count, unsigned size, unsigned alive, Kernel* const* kernels, void* context) {
    if (size == 0 || alive == 0 || alive > MAX_BLOCKS || alive * size > MAX_ALIVE) return 1;
    if (alive > 1 && alive != count) return 1;
    prepare(int(size));
    launch.context = context;
    Fibers fibers(scheduler_fiber, [](int thread) -> Fiber& { return threads[thread].fiber; }, int(alive * size));
    for (unsigned first = 0; first < count && !launch.failed; first += alive) run_blocks(first, alive, count, kernels);
    return launch.failed;
}

}  // extern "C"
