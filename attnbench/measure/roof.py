"""The roof of this machine, measured: a large matrix product and a large copy."""

import time
from collections.abc import Callable

import torch

from attnbench.measure.clock import WallClock

_REPEATS = 5


def measure(device: str, ceiling: str) -> tuple[float, float]:
    """(FLOP/s of a matrix product, bytes/s read plus written of a copy): the best of five after a warm-up.

    A ceiling is a dtype, or `float32, matmul high`, where products may be rounded (on a GPU to TF32, several times as fast).
    """
    dtype, _, precision = ceiling.partition(", matmul ")
    torch.set_float32_matmul_precision(precision or "highest")
    clock = WallClock((lambda: torch.cuda.synchronize(device)) if device.startswith("cuda") else None)
    element = getattr(torch, dtype)
    n = 8192 if device.startswith("cuda") else _affordable(element)
    a, b = (torch.randn(n, n, device=device).to(element) for _ in range(2))
    product = _best(clock, lambda: a @ b)
    source = torch.ones((4 if device.startswith("cuda") else 1) * 2**28, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    copy = _best(clock, lambda: target.copy_(source))
    return 2.0 * n**3 / product, 2.0 * source.numel() / copy


def _affordable(dtype: torch.dtype) -> int:
    """2048, or 512 where this processor has no fast product of that dtype."""
    a = torch.randn(512, 512).to(dtype)
    return 2048 if _best(WallClock(), lambda: a @ a) < 0.01 else 512


def _best(clock: WallClock, call: Callable[[], object]) -> float:
    call()
    end = time.perf_counter() + 1.0
    times = [clock.sample(call, 1)]
    while len(times) < _REPEATS and time.perf_counter() < end:
        times.append(clock.sample(call, 1))
    return min(times)
