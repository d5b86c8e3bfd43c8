"""The state that a method could change in its process: threads, clocks, modes of torch, and work that goes on after a call."""

import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, fields
from time import perf_counter, process_time, sleep
from typing import Self

import psutil
import torch

_CLOCKS = {name: getattr(time, name) for name in ("perf_counter", "perf_counter_ns", "monotonic", "time", "process_time")}
"""Python's own clocks, bound here before any plugin is imported."""
_CORES_TO_SPARE = 0.5
"""The cores that may be busy beyond torch's threads, for threads of the interpreter or a driver."""
_SPIN = 0.012
"""The seconds of processor time that a thread may spin, waiting for its next work, before it gives up."""
_WATCH, _LONGEST = 0.01, 0.5
"""The seconds over which a process must be idle to count as quiet, and the longest wait for that."""
_BUSY = 0.5
"""The number of busy cores above which a process is not quiet."""


@dataclass(frozen=True)
class ProcessState:
    """Settings of this process; compared before and after, they tell what a method changed."""

    threads: int
    cores: int
    default_dtype: str
    matmul_precision: str
    gradients: bool
    inference: bool
    autocast: bool
    deterministic: bool
    clocks: str
    """`Python's`, or the names of the clocks that were replaced."""

    @classmethod
    def read(cls) -> Self:
        """Read the settings as they are now."""
        return cls(
            threads=torch.get_num_threads(),
            cores=len(os.sched_getaffinity(0)),
            default_dtype=str(torch.get_default_dtype()).removeprefix("torch."),
            matmul_precision=torch.get_float32_matmul_precision(),
            gradients=torch.is_grad_enabled(),
            inference=torch.is_inference_mode_enabled(),
            autocast=torch.is_autocast_enabled("cpu") or torch.is_autocast_enabled("cuda"),
            deterministic=torch.are_deterministic_algorithms_enabled(),
            clocks=" and ".join(f"another {name}" for name, own in _CLOCKS.items() if getattr(time, name) is not own)
            or "Python's",
        )

    def changed(self, now: "ProcessState") -> str:
        """Say in words what has changed; empty where nothing has."""
        different = [f.name for f in fields(self) if getattr(self, f.name) != getattr(now, f.name)]
        said = [f"{name.replace('_', ' ')} from {getattr(self, name)} to {getattr(now, name)}" for name in different]
        return f"it changed {' and '.join(said)}" if said else ""


def busy_cores() -> Callable[[int], str]:
    """Start counting processor time; what is returned says in words that more cores were busy since than torch has threads."""
    wall, own = perf_counter(), process_time()

    def too_much(threads: int) -> str:
        seconds = perf_counter() - wall
        busy = (process_time() - own) / seconds if seconds > 0 else 0.0
        if busy <= threads + _CORES_TO_SPARE:
            return ""
        return f"it kept {busy:.1f} cores busy where {threads} {'thread is' if threads == 1 else 'threads are'} allowed"

    return too_much


def children() -> frozenset[int]:
    """Return the numbers of all processes below this one."""
    return frozenset(child.pid for child in psutil.Process().children(recursive=True))


def still_at_work(known: frozenset[int] = frozenset()) -> str:
    """Say in words what goes on although no call is running; empty where nothing does but the children that are known."""
    if compiler := sys.modules.get("torch._inductor.async_compile"):
        # for a GPU torch's compiler keeps a pool of processes, which idle until something else is to be compiled
        compiler.shutdown_compile_workers()
    if left := len(children() - known):
        return f"it left {left} {'process' if left == 1 else 'processes'} running"
    # counted in processor time: on a busy machine a spinning thread takes long to give up
    begin, own, last = perf_counter(), process_time(), process_time()
    while (now := perf_counter()) - begin < _LONGEST:
        sleep(_WATCH)
        if process_time() - last <= _BUSY * (perf_counter() - now):
            break
        last = process_time()
    # the threads of a backward have a pool of their own
    may_spin = 2 * torch.get_num_threads()
    return "it went on computing after its last call had returned" if process_time() - own > _SPIN * may_spin else ""
