"""The adaptive loop: how long to warm up, how many samples to take, and when to stop."""

import gc
import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass, field
from time import perf_counter

from attnbench.measure.clock import Call, Clock, Look, drop

MIN_SAMPLES = 10
_MIN_SECONDS = 0.5
_STEADY = 0.01
_WINDOW = 3
_WARMUP_SECONDS = 5.0
# imports and thread pools that a first call may set up; one more call tells them from a slow method
_START_UP = 2.0
_TRIES = 3
"""Calls of which the fastest has to keep to the limit: a single slow one may be the machine's doing."""


class OverBudgetError(Exception):
    """One call alone takes more than it may; `seconds` says how long."""

    def __init__(self, seconds: float, limit: float) -> None:
        super().__init__(f"one call took {seconds:.3g} s, above the {limit:.3g} s that a call may take")
        self.seconds = seconds


@dataclass
class Timing:
    """Raw samples in seconds per call, and how they came about."""

    first_call: float
    samples: list[float] = field(default_factory=list)
    warmup: list[float] = field(default_factory=list)
    warmup_calls: int = 1
    batch: int = 1
    stop: str = "budget"
    sampling_seconds: float = 0.0
    """From the first sample to the last, with all that lies between them."""


@dataclass
class Loop:
    """Times a call by a clock within a budget of seconds, warm-up included."""

    clock: Clock
    seconds: float
    first_call: float | None = None
    compiles: bool = False
    look: Look = drop
    """Told what the last call of each sample gave."""
    mark: Callable[[], object] = int
    """Called where sampling begins and where it ends."""
    reserve: int = 0
    """Calls after the last sample that the budget has to have room for."""
    now: Callable[[], float] = perf_counter
    prepared: Call | None = field(default=None, init=False)
    """What was sampled: the call, or a captured graph of it."""

    def run(self, call: Call, warmup_calls: int | None = None) -> Timing:
        """Warm up (adaptively, or by that many calls) and sample; raises OverBudgetError."""
        start = self.now()
        timing = Timing(first_call=self._timed_once(call))
        # a first call that was slow by more than a start-up has been one try already
        tries = 1 if not self.compiles and self._over(timing.first_call - _START_UP) else _TRIES
        if self.compiles or self._over(timing.first_call):
            start = self.now()  # compiling, or a process' own start: a metric of its own, no share of the budget
        call = self.prepared = self.clock.prepare(call)
        gc.collect()
        gc.disable()
        try:
            self._warm_up(call, timing, warmup_calls, start + self.seconds, tries)
            self.mark()
            begin = self.now()
            self._sample(call, timing, start + self.seconds)
            timing.sampling_seconds = self.now() - begin
            self.mark()
        finally:
            gc.enable()
        return timing

    def _timed_once(self, call: Call) -> float:
        start = self.now()
        call()
        self.clock.synchronize()
        return max(self.now() - start, 1e-9)

    def _over(self, seconds: float) -> bool:
        return self.first_call is not None and seconds > self.first_call

    def _warm_up(self, call: Call, timing: Timing, count: int | None, end: float, tries: int) -> None:
        """Until the medians of two windows agree, or the time for it is over, or by the count of an earlier replicate."""
        if count == 1:
            return
        enough = self.now() + min(_WARMUP_SECONDS, self.seconds / 3)
        again = self.clock.sample(call, 1)
        for _ in range(1, tries):
            if self._over(again):
                again = min(again, self.clock.sample(call, 1))
        if self._over(again):
            raise OverBudgetError(again, self.first_call or 0.0)
        if again > self.seconds / 3:
            timing.samples.append(again)  # one call fills the warm-up's share of the budget: the rest are samples
            return
        timing.warmup.append(again)
        timing.warmup_calls += 1
        timing.batch = self._batch(timing.warmup)
        while timing.warmup_calls < count if count is not None else not steady(timing.warmup) and self.now() < enough:
            if self.now() + 2 * timing.batch * timing.warmup[-1] > end:
                return  # there must be room for a sample, also where an earlier replicate's count takes longer now
            batch = timing.batch if count is None else min(timing.batch, count - timing.warmup_calls)
            timing.warmup.append(self.clock.sample(call, batch))
            timing.warmup_calls += batch
            timing.batch = self._batch(timing.warmup)

    def _batch(self, values: list[float]) -> int:
        """Calls per sample, by the fastest of the last window: the very first calls are often slow."""
        fastest = max(min(values[-_WINDOW:]), 1e-9)
        return max(1, min(10_000, math.ceil(self.clock.min_sample / fastest)))

    def _sample(self, call: Call, timing: Timing, end: float) -> None:
        start, look = self.now(), MIN_SAMPLES
        while not timing.samples or self.now() + (timing.batch + self.reserve) * timing.samples[-1] <= end:
            timing.samples.append(self.clock.sample(call, timing.batch, self.look))
            if len(timing.samples) >= look and self.now() - start >= _MIN_SECONDS:
                if stable(timing.samples):
                    timing.stop = "stable"
                    return
                look = math.ceil(1.05 * len(timing.samples))  # sorting them all each time would eat the budget


def steady(values: list[float]) -> bool:
    """Whether the medians of the last two windows agree within 1 %."""
    if len(values) < 2 * _WINDOW:
        return False
    last, before = statistics.median(values[-_WINDOW:]), statistics.median(values[-2 * _WINDOW : -_WINDOW])
    return abs(last - before) <= _STEADY * before


def stable(values: list[float]) -> bool:
    """IQR / median below 1 %, or the median moved by less than 1 % over the last half of the samples."""
    median = statistics.median(values)
    low, _, high = statistics.quantiles(values, n=4)
    return high - low < _STEADY * median or abs(statistics.median(values[: len(values) // 2]) - median) < _STEADY * median
