// The kernels KERNELS of SOURCE by their names, for ctypes; KERNELS is a list of KERNEL(name).
#include "cuda_on_cpu.h"

#include <string>
#include <tuple>
#include <utility>

#include SOURCE

using Arguments = const void* const*;

template <class... A, std::size_t... I>
std::function<void()> bound(void (*kernel)(A...), Arguments arguments, std::index_sequence<I...>) {
    // each argument is 8 bytes wide, as cuLaunchKernel is given it: pointer, long long or double
    return [=] { kernel(*static_cast<const A*>(arguments[I])...); };
}

template <class... A>
std::function<void()> bound(void (*kernel)(A...), Arguments arguments, int count) {
    if (count != int(sizeof...(A))) return {};
    return bound(kernel, arguments, std::index_sequence_for<A...>());
}

// 0, or why there was no launch
extern "C" const char* launch_on_cpu(const char* name, unsigned x, unsigned y, unsigned threads, unsigned shared,
                                     bool downwards, Arguments arguments, int count) {
    std::function<void()> kernel;
    const std::string wanted = name;
#define KERNEL(...) \
    if (wanted == #__VA_ARGS__ && !(kernel = bound(__VA_ARGS__, arguments, count))) return "wrong number of arguments";
    KERNELS
    if (!kernel) return "no kernel of that name";
    if (shared > sizeof block_shared) return "more shared memory than a block gets unasked";
    cpu::launch({x, y}, threads, shared, downwards, kernel);
    return nullptr;
}
