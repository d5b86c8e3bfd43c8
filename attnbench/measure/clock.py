"""Clocks: what one sample of time means on each device. The label of the clock is part of every result."""

import math
from collections.abc import Callable
from statistics import median

# bound here, before any plugin is imported, so that a plugin that replaces time.perf_counter changes no measurement
from time import perf_counter, perf_counter_ns
from typing import Any, Protocol

import torch

from attnbench.measure.environment import Facts

Call = Callable[[], object]
Look = Callable[[object], None]
"""Is given the result of the last call of a sample, once the time is taken."""
_MIN_SAMPLE = 0.005
_COLD_RATIO = 1.1
_FEW, _HALF = 0.1, 0.5
_LATE, _LATE_OF_CALL = 1e-4, 0.02
"""The seconds that a device may be busy after the call's own stream has finished; after a long call, this share of it."""
_CYCLES_PER_SECOND = 2e9  # about the SM clock of the H100: at a higher one the stream is held for less, until no gap is left
_LONGEST_HOLD = 0.05
"""The most seconds that a stream is held back."""
_SLOWED = 0.9
"""The share of the highest SM clock below which a call counts as slowed."""
_UNROLLED_SECONDS = 2e-4
"""The least seconds that a captured graph should last: launching one takes some 6 µs."""


def drop(_: object) -> None:
    """Ignore a result."""


class Clock(Protocol):
    """Measures the seconds that a call takes."""

    label: str
    min_sample: float
    """The least seconds that one sample should last; calls are batched until it does."""
    unrolled: int
    """The calls in what `prepare` returned; batches are whole multiples of it."""

    @property
    def facts(self) -> Facts:
        """State what a reader must know about the samples taken so far."""

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
    unrolled = 1
    flags = ()

    @property
    def facts(self) -> Facts:
        """State nothing but the label."""
        return {"clock": self.label}

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
    """Evicts a GPU's L2 cache by overwriting a buffer of at least twice its size, and then reading it.

    The overwrite alone would leave the cache full of lines that are written back while the next call is timed.
    """

    def __init__(self, device: str, cuda: Any = torch.cuda) -> None:  # noqa: ANN401 - the module, or a stub of it
        l2 = int(getattr(cuda.get_device_properties(device), "L2_cache_size", 0)) or 64 * 2**20
        self.buffer = torch.empty(2 * l2 // 4, dtype=torch.int32, device="cpu" if cuda is not torch.cuda else device)
        self.read = torch.empty((), dtype=torch.int32, device=self.buffer.device)

    def __call__(self) -> None:
        """Queue the overwrite and the read on the current stream."""
        self.buffer.zero_()
        torch.amax(self.buffer, dim=0, out=self.read)


class _CudaClock:
    """The part that the clocks of a GPU share; `cuda` is torch's module, or a stub of it."""

    label: str
    unrolled = 1

    def __init__(self, device: str, cuda: Any = torch.cuda) -> None:  # noqa: ANN401
        self.device, self.cuda = device, cuda

    def synchronize(self) -> None:
        """Wait for the GPU."""
        self.cuda.synchronize(self.device)

    def captured(self, call: Call, count: int = 1) -> Call:
        """Capture `count` calls as a CUDA graph, and return its replay, which gives the last call's result.

        Raises whatever a call raises.
        """
        graph, failed = self.cuda.CUDAGraph(), list[Exception]()
        try:
            with self.cuda.graph(graph, stream=self.cuda.current_stream(self.device)):
                try:
                    for _ in range(count):
                        result = call()
                except Exception as error:
                    failed.append(error)
                    raise
        except Exception:
            # what a graph cannot hold breaks the capture, whose end then fails too: the first error says what it was, and where
            if failed:
                raise failed[0] from None
            raise

        def replay() -> object:
            graph.replay()
            return result

        return replay

    def leave_the_default_stream(self) -> None:
        """Do all that follows on a side stream: no graph can be captured on the default one.

        The forward too, which is made before the capture where a backward alone is timed: autograd takes its gradients on the
        stream that it was made on.
        """
        stream = self.cuda.Stream(self.device)
        stream.wait_stream(self.cuda.current_stream(self.device))
        self.cuda.set_stream(stream)

    def warmed(self, call: Call) -> None:
        """Call three times, as CUDA graphs require before they are captured."""
        for _ in range(3):
            call()


class ColdClock(_CudaClock):
    """Reads device time between two CUDA events on the current stream, with L2 evicted before each sample.

    The stream is held back while the host queues the call, so that gaps between launches are not counted; where it was let go
    too early, it is held for longer and the sample is taken again. A call that synchronises inside itself, or launches more
    than a stream takes in (about a thousand kernels), still shows gaps, and `gaps` counts its samples. The kernel that holds
    the stream spins for a known number of cycles, and its time tells the SM clock just before each call. A copy of known size
    is timed cold and warm first: where the two do not differ, the label is `events` and not `cold`.
    """

    min_sample = 0.0

    def __init__(self, device: str, cuda: Any = torch.cuda) -> None:  # noqa: ANN401
        super().__init__(device, cuda)
        self.flush = CacheFlush(device, cuda)
        self.queue_seconds = 1e-3
        self._forget()
        self.cold_ratio = self._cold_ratio()
        self.label = "cold" if self.cold_ratio >= _COLD_RATIO else "events"
        self._forget()

    def _forget(self) -> None:
        self.taken = self.gaps = self.late = 0
        self.longest_wait = 0.0
        self.clocks_mhz: list[float] = []
        self.synchronises = False

    def prepare(self, call: Call) -> Call:
        """Learn how long the host takes to queue the call."""
        self.synchronize()
        start = perf_counter()
        call()
        self.queue_seconds = min(_LONGEST_HOLD, 1.5 * (perf_counter() - start) + 1e-4)
        self.synchronize()
        return call

    def sample(self, call: Call, batch: int, look: Look = drop) -> float:
        """Return the seconds of device time per call; each of the `batch` calls is timed on its own, after a flush."""
        return sum(self._once(call, cold=True, look=look if i == batch - 1 else drop) for i in range(batch)) / batch

    @property
    def facts(self) -> Facts:
        """State the label, how much longer a copy takes cold, and the SM clock at the calls: the median and the lowest.

        Where some calls ended late, also which share of them, and the longest wait in seconds.
        """
        found: Facts = {"clock": self.label, "cold_ratio": round(self.cold_ratio, 3)}
        if self.clocks_mhz:
            found |= {"sm_clock_mhz": round(median(self.clocks_mhz)), "sm_clock_mhz_lowest": round(min(self.clocks_mhz))}
        if self.late:
            found |= {"late_share": round(self.late / self.taken, 3), "longest_wait": round(self.longest_wait, 6)}
        return found

    @property
    def flags(self) -> tuple[str, ...]:
        """Warn of what holds for many of the calls.

        Over a tenth of them, `gaps`: the device began before all was queued; and `slowed`: its clock was more than a tenth
        below the highest one. Over half, `late`: the device went on after the call's stream was done. Work that is hidden in
        fewer calls moves no median, and what a fiftieth of a call hides decides nothing: of torch's own softmax, which hides
        none, waits were 0.1 to 0.2 ms after calls of 17 ms and more.
        """
        highest = max(self.clocks_mhz, default=0.0)
        slowed = sum(each < _SLOWED * highest for each in self.clocks_mhz)
        counted = {"gaps": (self.gaps, _FEW), "late": (self.late, _HALF), "slowed": (slowed, _FEW)}
        return tuple(name for name, (count, share) in counted.items() if count > share * self.taken)

    def _once(self, call: Call, *, cold: bool, look: Look = drop) -> float:
        while True:
            held, start, end = (self.cuda.Event(enable_timing=True) for _ in range(3))
            if cold:
                self.flush()
            held.record()
            cycles = math.ceil(self.queue_seconds * _CYCLES_PER_SECOND)
            self.cuda._sleep(cycles)
            start.record()
            result = call()
            # the stream has already begun: the time that the host was late is counted as the device's
            gap = bool(start.query())
            end.record()
            end.synchronize()
            done = perf_counter()
            self.synchronize()
            waited, seconds = perf_counter() - done, float(start.elapsed_time(end)) / 1e3
            if not gap or self.synchronises:
                break
            if self.queue_seconds >= _LONGEST_HOLD:
                # no hold is long enough for a call that waits for the device itself
                self.synchronises, self.queue_seconds = True, 1e-3
                break
            self.queue_seconds = min(_LONGEST_HOLD, 2 * self.queue_seconds)
        # another stream was still busy after the current one
        late = waited > max(_LATE, _LATE_OF_CALL * seconds)
        self.taken, self.gaps, self.late = self.taken + 1, self.gaps + gap, self.late + late
        self.longest_wait = max(self.longest_wait, waited)
        if (spun := float(held.elapsed_time(start))) > 0:
            self.clocks_mhz.append(cycles / spun / 1e3)
        look(result)
        return seconds

    def _cold_ratio(self) -> float:
        """Measure how many times as long a copy that fits in L2 takes cold as warm, by medians of seven."""
        size = self.flush.buffer.nbytes // 8
        source = torch.ones(size, dtype=torch.int8, device=self.flush.buffer.device)
        target = torch.empty_like(source)

        def copy() -> None:
            target.copy_(source)

        copy()
        cold, warm = (median(self._once(copy, cold=cold) for _ in range(7)) for cold in (True, False))
        return cold / warm if warm > 0 else 1.0


class ColdGraphClock(ColdClock):
    """Reads device time per replay of a CUDA graph of the call, with L2 evicted before each: as a decoder replays its step."""

    def __init__(self, device: str, cuda: Any = torch.cuda) -> None:  # noqa: ANN401
        super().__init__(device, cuda)
        self.label = f"graph_{self.label}"
        self.leave_the_default_stream()

    def prepare(self, call: Call) -> Call:
        """Capture the call, and learn how long the host takes to launch its graph."""
        self.warmed(call)
        return super().prepare(self.captured(call))


class GraphClock(_CudaClock):
    """Reads device time per call in a CUDA graph, with warm caches and no launch cost for each kernel.

    A graph of a short call holds it many times over, so that launching the graph is a small part of what is timed.
    """

    label = "graph"
    min_sample = _MIN_SAMPLE
    flags = ()
    most_unrolled = 64
    """The most calls in a graph; each replay leaves what so many calls leave."""

    def __init__(self, device: str, cuda: Any = torch.cuda) -> None:  # noqa: ANN401
        super().__init__(device, cuda)
        self.leave_the_default_stream()

    @property
    def facts(self) -> Facts:
        """State the label, and how many calls a graph holds."""
        return {"clock": self.label, "unrolled": self.unrolled}

    def prepare(self, call: Call) -> Call:
        """Capture the call, as often in one graph as makes it long enough, and return its replay."""
        self.warmed(call)
        self.unrolled, replay = 1, self.captured(call)
        seconds = min(self.sample(replay, 1) for _ in range(3))
        self.unrolled = min(self.most_unrolled, max(1, math.ceil(_UNROLLED_SECONDS / max(seconds, 1e-9))))
        return replay if self.unrolled == 1 else self.captured(call, self.unrolled)

    def sample(self, call: Call, batch: int, look: Look = drop) -> float:
        """Return the seconds of device time per call, over as many replays as hold `batch` calls."""
        replays = -(-batch // self.unrolled)
        start, end = (self.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(replays - 1):
            call()
        result = call()
        end.record()
        self.synchronize()
        seconds = float(start.elapsed_time(end)) / 1e3 / (replays * self.unrolled)
        look(result)
        return seconds
