"""The roof of this machine, measured: a large matrix product, a large copy, and one that stays in cache."""

from collections.abc import Callable
from time import perf_counter

import torch

from attnbench.measure.clock import Clock, GraphClock, WallClock

_REPEATS = 5
_SHORT, _SHORT_REPEATS = 512, 100
"""The width of a product that takes some milliseconds, and how often it is tried."""
_CACHED, _CACHED_COPIES = 2**14, 200
"""How many numbers of 4 bytes a core copies within its cache, and how often."""


def measure(device: str, ceiling: str) -> tuple[float, float, float]:
    """Measure the FLOP/s of a matrix product and the bytes/s (read plus written) of a large copy and of one in cache.

    Each is the best of five after a warm-up; on a CPU also of many short ones, which find a moment for themselves on a machine
    whose cores are taken. A ceiling is a dtype, or `float32, matmul high`, where products may be rounded
    (on a GPU to TF32, which is several times as fast).
    """
    dtype, _, precision = ceiling.partition(", matmul ")
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision or "highest")
    clock = WallClock((lambda: torch.cuda.synchronize(device)) if device.startswith("cuda") else None)
    element = getattr(torch, dtype)
    n = 8192 if device.startswith("cuda") else _affordable(element)
    a, b = (torch.randn(n, n, device=device).to(element) for _ in range(2))
    flops = 2.0 * n**3 / _best(clock, lambda: a @ b)
    if not device.startswith("cuda"):
        a, b = (x[:_SHORT, :_SHORT].contiguous() for x in (a, b))
        flops = max(flops, 2.0 * len(a) ** 3 / _best(clock, lambda: a @ b, repeats=_SHORT_REPEATS))
    torch.set_float32_matmul_precision(before)
    source = torch.ones((4 if device.startswith("cuda") else 1) * 2**28, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    copy = _best(clock, lambda: target.copy_(source))
    bytes_per_second = 2.0 * source.numel() / copy
    if not device.startswith("cuda"):
        # by all threads, of a buffer whose parts fit into each core's own cache
        part = torch.ones(torch.get_num_threads() * _CACHED, dtype=torch.float32)
        return flops, bytes_per_second, _many_copies(part, clock)
    # copies that fill half of L2, as one graph: launched one by one they take longer to launch
    part = torch.ones(int(torch.cuda.get_device_properties(device).L2_cache_size) // 4, dtype=torch.uint8, device=device)
    # the clock leaves the default stream; what follows the roof goes on where it was
    with torch.cuda.stream(torch.cuda.current_stream(device)):
        return flops, bytes_per_second, _many_copies(part, GraphClock(device))


def _many_copies(source: torch.Tensor, clock: Clock) -> float:
    """Return the bytes/s of many copies, the best of twenty."""
    target = torch.empty_like(source)
    call = clock.prepare(lambda: target.copy_(source))
    return 2.0 * source.nbytes / min(clock.sample(call, _CACHED_COPIES) for _ in range(4 * _REPEATS))


def _affordable(dtype: torch.dtype) -> int:
    """Return 2048, or 512 where this processor has no fast product of that dtype."""
    a = torch.randn(512, 512).to(dtype)
    return 2048 if _best(WallClock(), lambda: a @ a) < 0.01 else 512


def _best(clock: WallClock, call: Callable[[], object], repeats: int = _REPEATS) -> float:
    call()
    end = perf_counter() + 2.0
    times = [clock.sample(call, 1)]
    while len(times) < repeats and perf_counter() < end:
        times.append(clock.sample(call, 1))
    return min(times)
