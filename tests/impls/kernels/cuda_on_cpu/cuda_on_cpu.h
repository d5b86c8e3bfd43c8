// Just enough of CUDA to run a kernel on a CPU: blocks one after the other, each thread of a block a fiber.
//
// A fiber runs until it waits; then the next one does, upwards or downwards through the block. A kernel whose result
// depends on the direction has a race. Shared memory holds NaN when a block begins, so that nothing counts on zeros.
#pragma once

#include <setjmp.h>
#include <ucontext.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iterator>
#include <memory>
#include <vector>

#define __device__
#define __global__
#define __launch_bounds__(...)
// what `extern __shared__ char block_shared[]` finds: as much as a block gets unasked
#define __shared__
alignas(16) inline char block_shared[48 << 10];
// a conversion of float16 in PTX: compiled away, not run here
#define asm(...) y = {}

using std::exp;
using std::min;

struct Dimensions {
    unsigned x = 1, y = 1, z = 1;
};
inline Dimensions threadIdx, blockIdx, blockDim, gridDim;

inline float __uint_as_float(unsigned u) {
    float x;
    std::memcpy(&x, &u, 4);
    return x;
}

inline unsigned __float_as_uint(float x) {
    unsigned u;
    std::memcpy(&u, &x, 4);
    return u;
}

namespace cpu {

struct Fiber {
    jmp_buf here;
    ucontext_t start;
    std::unique_ptr<char[]> stack{new char[1 << 17]};
    bool begun = false, done = false;
    // barriers passed, and shuffles: the exchange has two places, so that a fast lane overwrites nothing unread
    long waits = 0, shuffles = 0;
};

inline std::vector<Fiber> fibers;
inline unsigned current;
inline jmp_buf scheduler;
inline std::function<void()> body;
inline long block_arrivals;
inline std::vector<long> warp_arrivals;
inline std::vector<double> exchange[2];

inline void run() {
    body();
    fibers[current].done = true;
    _longjmp(scheduler, 1);
}

inline void yield() {
    const unsigned self = current;
    if (!_setjmp(fibers[self].here)) _longjmp(scheduler, 1);
    current = self;
    threadIdx.x = self;
}

inline void wait(long& arrivals, long members) {
    const long all = (arrivals++ / members + 1) * members;
    while (arrivals < all) yield();
}

inline void resume(unsigned i) {
    current = threadIdx.x = i;
    if (_setjmp(scheduler)) return;
    if (fibers[i].begun) _longjmp(fibers[i].here, 1);
    fibers[i].begun = true;
    getcontext(&fibers[i].start);
    fibers[i].start.uc_stack.ss_sp = fibers[i].stack.get();
    fibers[i].start.uc_stack.ss_size = 1 << 17;
    makecontext(&fibers[i].start, run, 0);
    setcontext(&fibers[i].start);
}

inline void run_block(unsigned threads, bool downwards) {
    std::memset(block_shared, 0xff, sizeof block_shared);
    for (Fiber& fiber : fibers) fiber.begun = fiber.done = false, fiber.shuffles = 0;
    block_arrivals = 0;
    warp_arrivals.assign(threads / 32, 0);
    for (unsigned left = threads; left;)
        for (unsigned i = 0; i < threads; ++i) {
            const unsigned next = downwards ? threads - 1 - i : i;
            if (fibers[next].done) continue;
            resume(next);
            left -= fibers[next].done;
        }
}

// kernel<<<grid, threads, shared>>>(); `threads` a multiple of 32. Aborts where a block wrote beyond its shared memory.
inline void launch(Dimensions grid, unsigned threads, unsigned shared, bool downwards, std::function<void()> kernel) {
    body = kernel;
    fibers = std::vector<Fiber>(threads);
    for (auto& place : exchange) place.resize(threads);
    gridDim = grid, blockDim = {threads};
    for (unsigned y = 0; y < grid.y; ++y)
        for (unsigned x = 0; x < grid.x; ++x) {
            blockIdx = {x, y};
            run_block(threads, downwards);
            const auto written = [](char c) { return c != char(0xff); };
            if (std::any_of(block_shared + shared, std::end(block_shared), written)) std::abort();
        }
}

}  // namespace cpu

inline void __syncthreads() { cpu::wait(cpu::block_arrivals, long(cpu::fibers.size())); }

template <class T>
T __shfl_xor_sync(unsigned, T x, int lanes) {
    const unsigned self = cpu::current;
    auto& place = cpu::exchange[cpu::fibers[self].shuffles++ % 2];
    place[self] = double(x);
    cpu::wait(cpu::warp_arrivals[self / 32], 32);
    return T(place[self ^ unsigned(lanes)]);
}
