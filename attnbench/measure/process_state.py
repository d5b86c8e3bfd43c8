"""What a measurement is made under and what a method could change: threads, modes of torch, whom it leaves at work."""

import os
import time
from dataclasses import dataclass, fields
from time import perf_counter, process_time, sleep
from typing import Self

import psutil
import torch

_CLOCKS = {name: getattr(time, name) for name in ("perf_counter", "perf_counter_ns", "monotonic", "time", "process_time")}
"""Bound here, before any plugin is imported."""
_CORES_TO_SPARE = 0.5
"""Cores that may be busy beyond torch's threads: an interpreter's own, a driver's."""
_SPIN = 0.012
"""Seconds of a processor that a thread may spin for its next work before it gives up."""
_WATCH, _LONGEST = 0.01, 0.5
"""Seconds in which nothing may be done before a process counts as quiet, and for how long that is waited for."""
_BUSY = 0.5
"""Cores at work while nothing was asked for."""


@dataclass(frozen=True)
class ProcessState:
    """As it is now; two of them tell what a method changed."""

    threads: int
    cores: int
    default_dtype: str
    matmul_precision: str
    gradients: bool
    inference: bool
    autocast: bool
    deterministic: bool
    clocks: str
    """Python's own, or those that somebody has put in their place."""

    @classmethod
    def read(cls) -> Self:
        """Ask torch and the operating system."""
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
        """In words, what is not as it was; empty where all is."""
        different = [f.name for f in fields(self) if getattr(self, f.name) != getattr(now, f.name)]
        said = [f"{name.replace('_', ' ')} from {getattr(self, name)} to {getattr(now, name)}" for name in different]
        return f"it changed {' and '.join(said)}" if said else ""


class Vigil:
    """Compares this process with what it was whenever it is asked (5 µs), so that what is put back in time is seen too."""

    def __init__(self, before: ProcessState) -> None:
        self.before, self.words = before, ""

    def look(self) -> str:
        """In words, the first change seen by now; empty where there was none."""
        self.words = self.words or self.before.changed(ProcessState.read())
        return self.words


@dataclass
class Work:
    """Processor time of this process since a moment: more cores than it was given cannot have been at work."""

    wall: float
    own: float

    @classmethod
    def begin(cls) -> Self:
        """From now on."""
        return cls(perf_counter(), process_time())

    def too_much(self, threads: int) -> str:
        """In words, where more cores were busy than torch has threads; empty where not."""
        seconds = perf_counter() - self.wall
        busy = (process_time() - self.own) / seconds if seconds > 0 else 0.0
        if busy <= threads + _CORES_TO_SPARE:
            return ""
        return f"it kept {busy:.1f} cores busy where {threads} {'thread is' if threads == 1 else 'threads are'} allowed"


def still_at_work() -> str:
    """In words, what goes on although no call is running; empty where nothing does."""
    if children := psutil.Process().children(recursive=True):
        return f"it left {len(children)} {'process' if len(children) == 1 else 'processes'} running"
    # in seconds of processors: on a busy machine a thread that spins takes long to give up
    begin, own, last = perf_counter(), process_time(), process_time()
    while (now := perf_counter()) - begin < _LONGEST:
        sleep(_WATCH)
        if process_time() - last <= _BUSY * (perf_counter() - now):
            break
        last = process_time()
    # those of a backward have pools of their own
    may_spin = 2 * torch.get_num_threads()
    return "it went on computing after its last call had returned" if process_time() - own > _SPIN * may_spin else ""
