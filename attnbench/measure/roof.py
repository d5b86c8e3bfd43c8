"""The roof of this machine, measured: a large matrix product, a large copy, and one that stays in cache."""

from collections.abc import Callable
from time import perf_counter

import torch

from attnbench.measure.clock import WallClock

_REPEATS = 5
_CACHED, _CACHED_COPIES = 2**14, 200
"""Numbers of 4 bytes that a core copies within its cache, and how often."""


def measure(device: str, ceiling: str) -> tuple[float, float, float]:
    """FLOP/s of a matrix product, bytes/s read plus written of a copy, and of one in cache: the best of five after a warm-up.

    A ceiling is a dtype, or `float32, matmul high`, where products may be rounded (on a GPU to TF32, several times as fast).
    """
    dtype, _, precision = ceiling.partition(", matmul ")
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision or "highest")
    clock = WallClock((lambda: torch.cuda.synchronize(device)) if device.startswith("cuda") else None)
    element = getattr(torch, dtype)
    n = 8192 if device.startswith("cuda") else _affordable(element)
    a, b = (torch.randn(n, n, device=device).to(element) for _ in range(2))
    product = _best(clock, lambda: a @ b)
    torch.set_float32_matmul_precision(before)
    source = torch.ones((4 if device.startswith("cuda") else 1) * 2**28, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    copy = _best(clock, lambda: target.copy_(source))
    return 2.0 * n**3 / product, 2.0 * source.numel() / copy, _in_cache(clock, device)


def _in_cache(clock: WallClock, device: str) -> float:
    """Of many copies of a buffer that each core's own cache holds, by all threads; of a GPU, by all of it."""
    cores = 64 if device.startswith("cuda") else torch.get_num_threads()
    source = torch.ones(cores * _CACHED, dtype=torch.float32, device=device)
    target = torch.empty_like(source)
    seconds = min(clock.sample(lambda: target.copy_(source), _CACHED_COPIES) for _ in range(_REPEATS))
    return 2.0 * 4 * source.numel() / seconds


def _affordable(dtype: torch.dtype) -> int:
    """2048, or 512 where this processor has no fast product of that dtype."""
    a = torch.randn(512, 512).to(dtype)
    return 2048 if _best(WallClock(), lambda: a @ a) < 0.01 else 512


def _best(clock: WallClock, call: Callable[[], object]) -> float:
    call()
    end = perf_counter() + 2.0
    times = [clock.sample(call, 1)]
    while len(times) < _REPEATS and perf_counter() < end:
        times.append(clock.sample(call, 1))
    return min(times)
