"""A script: known patterns of memory, each in a forked process of its own, told as one line of JSON each.

Its arguments are the allocator policy, which must be set before torch allocates, and the patterns: all where none is named.
"""

import json
import os
import sys
from collections.abc import Callable

import psutil

from attnbench.measure import allocator

if sys.argv[1] == "retain" and not allocator.retain():
    sys.exit("no mallopt here")

import torch
from torch import Tensor

from attnbench.measure.host_memory import host_rss_peak
from attnbench.measure.profiler_memory import torch_profiler_peak

BLOCK = 64 * 2**20
BEYOND_ANY_HEADROOM = 5 * BLOCK
SOILED = "many small tensors on a dirty heap"
torch.set_num_threads(1)


def patterns() -> dict[str, tuple[Callable[[], object], int]]:
    """A call, and the bytes it needs."""
    x, g = torch.randn(BLOCK // 4, requires_grad=True), torch.ones(BLOCK // 4)
    square = torch.randn(4096, 4096)
    return {
        "one tensor": (lambda: torch.ones(BLOCK // 4), BLOCK),
        # of 1 MiB each: small enough that the heap serves them once it has seen such a block freed
        SOILED: (lambda: [torch.ones(2**18) for _ in range(64)], BLOCK),
        "a chain of three, the first freed": (lambda: torch.ones(BLOCK // 4) + 1 + 1, 2 * BLOCK),
        # softmax over a strided dimension makes its input contiguous first
        "a transient inside one operator": (lambda: torch.softmax(square.T, 0), 2 * BLOCK),
        # exp and tanh, kept; then dL/dtanh and dL/dexp beside them
        "forward and backward": (lambda: torch.autograd.grad(x.exp().tanh(), x, g), 4 * BLOCK),
    }


def left_after_a_free() -> dict[str, object]:
    """What stays resident of a freed block, before and after a trim."""
    resident = psutil.Process().memory_info
    before = resident().rss
    torch.ones(BEYOND_ANY_HEADROOM // 4)
    kept = resident().rss - before
    allocator.trim()
    return {"kept": kept, "after_trim": resident().rss - before}


def soil() -> Tensor:
    """Allocate and free 300 MiB of the heap; the tensor given back lies above them, so that the top is not trimmed."""
    blocks = [torch.ones(2**18) for _ in range(300)]
    return torch.ones_like(blocks[-1])


def measured(call: Callable[[], object], expected: int, dirty: bool) -> dict[str, object]:
    call()
    pin = soil() if dirty else None
    rss, profiler = host_rss_peak(call), torch_profiler_peak(call)
    del pin
    return {"expected": expected, "rss": rss.bytes, "rss_flag": rss.flag, "profiler": profiler.bytes}


def in_a_fork(name: str, work: Callable[[], dict[str, object]]) -> None:
    if sys.argv[2:] and name not in sys.argv[2:]:
        return
    if (pid := os.fork()) == 0:
        sys.stdout.write(json.dumps({"pattern": name, **work()}) + "\n")
        sys.stdout.flush()
        os._exit(0)
    os.waitpid(pid, 0)


in_a_fork("a freed block", left_after_a_free)
for title, (act, need) in patterns().items():
    in_a_fork(title, lambda title=title, act=act, need=need: measured(act, need, title == SOILED))  # type: ignore[misc]
