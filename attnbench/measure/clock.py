"""Clocks: what one sample of time means on each device. The label of the clock is part of every result."""

import math
from collections.abc import Callable

# bound here, before any plugin is imported: whoever replaces time.perf_counter afterwards changes no measurement
from time import perf_counter, perf_counter_ns
from typing import Any, Protocol

import torch

from attnbench.measure.cache_flush import CacheFlush

Call = Callable[[], object]
Look = Callable[[object], None]
"""Told what the last call of a sample gave, once the time is taken."""
_MIN_SAMPLE = 0.005
_COLD_RATIO = 1.1
_FEW = 0.1
_LATE = 1e-4
"""Seconds that a device may still take to become idle once the call's own stream is."""
_CYCLES_PER_SECOND = 2e9  # at or above the SM clock of current devices: the stream is held at least as long as asked


def drop(_: object) -> None:
    """Look at nothing."""


class Clock(Protocol):
    """Turns a call into seconds."""

    label: str
    min_sample: float
    """Seconds that one sample should last at least; calls are batched until it does."""

    @property
    def flags(self) -> tuple[str, ...]:
        """What is to be known of the samples taken so far."""

    def synchronize(self) -> None:
        """Wait until the device has done all that was queued."""

    def prepare(self, call: Call) -> Call:
        """Give the call that is timed from now on (a captured graph of it, say)."""

    def sample(self, call: Call, batch: int, look: Look = drop) -> float:
        """Seconds per call over `batch` calls."""


class WallClock:
    """Host time by `perf_counter`, with the device idle before and after; includes launch and Python overhead."""

    label = "wall"
    min_sample = _MIN_SAMPLE
    flags = ()

    def __init__(self, synchronize: Callable[[], None] | None = None) -> None:
        self.synchronize = synchronize or (lambda: None)

    def prepare(self, call: Call) -> Call:
        """Nothing to prepare."""
        return call

    def sample(self, call: Call, batch: int, look: Look = drop) -> float:
        """Seconds per call of a loop over `batch` calls; to free what the last one gave is not part of it."""
        self.synchronize()
        start = perf_counter_ns()
        for _ in range(batch - 1):
            call()
        result = call()
        self.synchronize()
        seconds = (perf_counter_ns() - start) / batch / 1e9
        look(result)
        return seconds


class ColdClock:
    """Device time between two CUDA events on the current stream, with L2 evicted before each sample.

    The stream is held back while the host queues the call, so that gaps between launches stay outside. A call that
    synchronises inside itself, or launches more than a stream takes in (about a thousand kernels), still shows gaps, and
    `gaps` counts its samples. A copy of known size is timed cold and warm first: where the two do not differ the label
    `cold` is refused.
    """

    min_sample = 0.0

    def __init__(self, device: str, cuda: Any = torch.cuda) -> None:  # noqa: ANN401 - the module, or a stub of it
        self.device, self.cuda = device, cuda
        self.flush = CacheFlush(device, cuda)
        self.queue_seconds = 1e-3
        self.taken = self.gaps = self.late = 0
        self.cold_ratio = self._cold_ratio()
        self.label = "cold" if self.cold_ratio >= _COLD_RATIO else "events"
        self.taken = self.gaps = self.late = 0

    def synchronize(self) -> None:
        """Wait for the GPU."""
        self.cuda.synchronize(self.device)

    def prepare(self, call: Call) -> Call:
        """Learn how long the host takes to queue the call."""
        self.synchronize()
        start = perf_counter()
        call()
        self.queue_seconds = min(0.05, 1.5 * (perf_counter() - start) + 1e-4)
        self.synchronize()
        return call

    def sample(self, call: Call, batch: int, look: Look = drop) -> float:
        """Seconds of device time per call; `batch` calls are each flushed and timed on their own."""
        return sum(self._once(call, cold=True, look=look if i == batch - 1 else drop) for i in range(batch)) / batch

    @property
    def flags(self) -> tuple[str, ...]:
        """`gaps`: the device had begun before all was queued; `late`: it went on after the call; in over a tenth of calls."""
        counted = {"gaps": self.gaps, "late": self.late}
        return tuple(name for name, count in counted.items() if count > _FEW * self.taken)

    def _once(self, call: Call, *, cold: bool, look: Look = drop) -> float:
        start, end = (self.cuda.Event(enable_timing=True) for _ in range(2))
        if cold:
            self.flush()
        self.cuda._sleep(math.ceil(self.queue_seconds * _CYCLES_PER_SECOND))
        start.record()
        result = call()
        # the stream was let go already: what the host was late with counts as the device's time
        self.gaps += bool(start.query())
        self.taken += 1
        end.record()
        end.synchronize()
        done = perf_counter()
        self.synchronize()
        # the current stream was through, and another one was not
        self.late += perf_counter() - done > _LATE
        seconds = float(start.elapsed_time(end)) / 1e3
        look(result)
        return seconds

    def _cold_ratio(self) -> float:
        """How much longer a copy that fits in L2 takes cold than warm; medians of seven."""
        size = self.flush.buffer.numel() // 8
        source = torch.ones(size, dtype=torch.int8, device=self.flush.buffer.device)
        target = torch.empty_like(source)

        def copy() -> None:
            target.copy_(source)

        copy()
        cold, warm = (sorted(self._once(copy, cold=cold) for _ in range(7))[3] for cold in (True, False))
        return cold / warm if warm > 0 else 1.0


class GraphClock:
    """Device time per replay of a CUDA graph captured from the call; caches warm, no launch cost per kernel.

    The host's launch of the first replay lies between the events: many replays a sample make it small.
    """

    label = "graph"
    min_sample = _MIN_SAMPLE
    flags = ()

    def __init__(self, device: str, cuda: Any = torch.cuda) -> None:  # noqa: ANN401
        self.device, self.cuda = device, cuda

    def synchronize(self) -> None:
        """Wait for the GPU."""
        self.cuda.synchronize(self.device)

    def prepare(self, call: Call) -> Call:
        """Capture the call after three runs on a side stream, as CUDA graphs ask for; give its replay."""
        stream = self.cuda.Stream(self.device)
        stream.wait_stream(self.cuda.current_stream(self.device))
        with self.cuda.stream(stream):
            for _ in range(3):
                call()
        self.cuda.current_stream(self.device).wait_stream(stream)
        graph = self.cuda.CUDAGraph()
        with self.cuda.graph(graph):
            result = call()

        def replay() -> object:
            graph.replay()
            return result

        return replay

    def sample(self, call: Call, batch: int, look: Look = drop) -> float:
        """Seconds of device time per replay."""
        start, end = (self.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(batch - 1):
            call()
        result = call()
        end.record()
        self.synchronize()
        seconds = float(start.elapsed_time(end)) / 1e3 / batch
        look(result)
        return seconds
