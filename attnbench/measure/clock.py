"""Clocks: what one sample of time means on each device. The label of the clock is part of every result."""

import math
from collections.abc import Callable

# bound here, before any plugin is imported, so that a plugin that replaces time.perf_counter changes no measurement
from time import perf_counter, perf_counter_ns
from typing import Any, Protocol

import torch

Call = Callable[[], object]
Look = Callable[[object], None]
"""Is given the result of the last call of a sample, once the time is taken."""
_MIN_SAMPLE = 0.005
_COLD_RATIO = 1.1
_FEW = 0.1
_LATE = 1e-4
"""The seconds that a device may still be busy after the call's own stream has finished."""
_CYCLES_PER_SECOND = 2e9  # at or above the SM clock of current devices: the stream is held at least as long as asked


def drop(_: object) -> None:
    """Ignore a result."""


class Clock(Protocol):
    """Measures the seconds that a call takes."""

    label: str
    min_sample: float
    """The least seconds that one sample should last; calls are batched until it does."""

    @property
    def flags(self) -> tuple[str, ...]:
        """Warnings about the samples taken so far."""

    def synchronize(self) -> None:
        """Wait until the device has done all that was queued."""

    def prepare(self, call: Call) -> Call:
        """Return what is timed in place of the call, such as a captured graph of it."""

    def sample(self, call: Call, batch: int, look: Look = drop) -> float:
        """Return the seconds per call over `batch` calls."""


class WallClock:
    """Reads host time by `perf_counter`, with the device idle before and after; launch and Python overhead are included."""

    label = "wall"
    min_sample = _MIN_SAMPLE
    flags = ()

    def __init__(self, synchronize: Callable[[], None] | None = None) -> None:
        self.synchronize = synchronize or (lambda: None)

    def prepare(self, call: Call) -> Call:
        """Return the call itself."""
        return call

    def sample(self, call: Call, batch: int, look: Look = drop) -> float:
        """Return the seconds per call of a loop over `batch` calls; freeing the last result is not part of it."""
        self.synchronize()
        start = perf_counter_ns()
        for _ in range(batch - 1):
            call()
        result = call()
        self.synchronize()
        seconds = (perf_counter_ns() - start) / batch / 1e9
        look(result)
        return seconds


class CacheFlush:
    """Evicts a GPU's L2 cache by overwriting a buffer of at least twice its size."""

    def __init__(self, device: str, cuda: Any = torch.cuda) -> None:  # noqa: ANN401 - the module, or a stub of it
        l2 = int(getattr(cuda.get_device_properties(device), "L2_cache_size", 0)) or 64 * 2**20
        self.buffer = torch.empty(2 * l2, dtype=torch.int8, device="cpu" if cuda is not torch.cuda else device)

    def __call__(self) -> None:
        """Queue the overwrite on the current stream."""
        self.buffer.zero_()


class _CudaClock:
    """What the clocks of a GPU share; `cuda` is torch's module, or a stub of it."""

    def __init__(self, device: str, cuda: Any = torch.cuda) -> None:  # noqa: ANN401
        self.device, self.cuda = device, cuda

    def synchronize(self) -> None:
        """Wait for the GPU."""
        self.cuda.synchronize(self.device)


class ColdClock(_CudaClock):
    """Reads device time between two CUDA events on the current stream, with L2 evicted before each sample.

    The stream is held back while the host queues the call, so that gaps between launches are not counted. A call that
    synchronises inside itself, or launches more than a stream takes in (about a thousand kernels), still shows gaps, and
    `gaps` counts its samples. A copy of known size is timed cold and warm first: where the two do not differ, the label is
    `events` and not `cold`.
    """

    min_sample = 0.0

    def __init__(self, device: str, cuda: Any = torch.cuda) -> None:  # noqa: ANN401
        super().__init__(device, cuda)
        self.flush = CacheFlush(device, cuda)
        self.queue_seconds = 1e-3
        self.taken = self.gaps = self.late = 0
        self.cold_ratio = self._cold_ratio()
        self.label = "cold" if self.cold_ratio >= _COLD_RATIO else "events"
        self.taken = self.gaps = self.late = 0

    def prepare(self, call: Call) -> Call:
        """Learn how long the host takes to queue the call."""
        self.synchronize()
        start = perf_counter()
        call()
        self.queue_seconds = min(0.05, 1.5 * (perf_counter() - start) + 1e-4)
        self.synchronize()
        return call

    def sample(self, call: Call, batch: int, look: Look = drop) -> float:
        """Return the seconds of device time per call; each of the `batch` calls is timed on its own, after a flush."""
        return sum(self._once(call, cold=True, look=look if i == batch - 1 else drop) for i in range(batch)) / batch

    @property
    def flags(self) -> tuple[str, ...]:
        """`gaps` where the device began before all was queued, `late` where it went on after; in over a tenth of the calls."""
        counted = {"gaps": self.gaps, "late": self.late}
        return tuple(name for name, count in counted.items() if count > _FEW * self.taken)

    def _once(self, call: Call, *, cold: bool, look: Look = drop) -> float:
        start, end = (self.cuda.Event(enable_timing=True) for _ in range(2))
        if cold:
            self.flush()
        self.cuda._sleep(math.ceil(self.queue_seconds * _CYCLES_PER_SECOND))
        start.record()
        result = call()
        # the stream has already begun: the time that the host was late is counted as the device's
        self.gaps += bool(start.query())
        self.taken += 1
        end.record()
        end.synchronize()
        done = perf_counter()
        self.synchronize()
        # another stream was still busy after the current one
        self.late += perf_counter() - done > _LATE
        seconds = float(start.elapsed_time(end)) / 1e3
        look(result)
        return seconds

    def _cold_ratio(self) -> float:
        """Measure how many times as long a copy that fits in L2 takes cold as warm, by medians of seven."""
        size = self.flush.buffer.numel() // 8
        source = torch.ones(size, dtype=torch.int8, device=self.flush.buffer.device)
        target = torch.empty_like(source)

        def copy() -> None:
            target.copy_(source)

        copy()
        cold, warm = (sorted(self._once(copy, cold=cold) for _ in range(7))[3] for cold in (True, False))
        return cold / warm if warm > 0 else 1.0


class GraphClock(_CudaClock):
    """Reads device time per replay of a CUDA graph of the call, with warm caches and no launch cost for each kernel.

    The host's launch of the first replay lies between the events; many replays in a sample make its share small.
    """

    label = "graph"
    min_sample = _MIN_SAMPLE
    flags = ()

    def prepare(self, call: Call) -> Call:
        """Capture the call after three runs on a side stream, as CUDA graphs require, and return its replay."""
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
        """Return the seconds of device time per replay."""
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
