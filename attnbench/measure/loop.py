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
_START_UP = 2.0
"""The seconds that a first call may need for imports and thread pools; a second call tells them from a slow method."""
_TRIES = 3
"""The number of calls of which the fastest must keep to the limit: a single slow call may be the machine's fault."""


class OverBudgetError(Exception):
    """One call alone takes longer than a call may; `seconds` says how long."""

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
    """The seconds from the beginning of the first sample to the end of the last."""
    early: int = 0
    """The samples before that: one, where a single call of the warm-up took so long that it counts."""

    @property
    def calls(self) -> int:
        """The calls that were timed while sampling."""
        return self.batch * (len(self.samples) - self.early)

    @property
    def timed(self) -> float:
        """The seconds that these calls took."""
        return self.batch * sum(self.samples[self.early :])


@dataclass
class Loop:
    """Times a call by a clock, within a budget of seconds that includes the warm-up."""

    clock: Clock
    seconds: float
    first_call: float | None = None
    compiles: bool = False
    look: Look = drop
    """Is given the result of the last call of each sample."""
    mark: Callable[[], object] = int
    """Is called where sampling begins and where it ends."""
    reserve: int = 0
    """The number of calls after the last sample for which the budget must leave room."""
    now: Callable[[], float] = perf_counter
    prepared: Call | None = field(default=None, init=False)
    """What was sampled: the call, or a captured graph of it."""

    def run(self, call: Call, warmup_calls: int | None = None) -> Timing:
        """Warm up (adaptively, or by that many calls) and sample. Raises OverBudgetError."""
        start = self.now()
        call()
        self.clock.synchronize()
        timing = Timing(first_call=max(self.now() - start, 1e-9))
        # a first call that was slower than any start-up counts as a try
        tries = 1 if not self.compiles and self._over(timing.first_call - _START_UP) else _TRIES
        if self.compiles or self._over(timing.first_call):
            # compiling and the start of a process are measured as the first call, and do not count against the budget
            start = self.now()
        call = self.prepared = self.clock.prepare(call)
        timing.batch = self.clock.unrolled
        gc.collect()
        gc.disable()
        try:
            self._warm_up(call, timing, warmup_calls, start + self.seconds, tries)
            timing.early = len(timing.samples)
            self.mark()
            begin = self.now()
            self._sample(call, timing, start + self.seconds)
            timing.sampling_seconds = self.now() - begin
            self.mark()
        finally:
            gc.enable()
        return timing

    def _over(self, seconds: float) -> bool:
        return self.first_call is not None and seconds > self.first_call

    def _warm_up(self, call: Call, timing: Timing, count: int | None, end: float, tries: int) -> None:
        """Call until the medians of two windows agree or the time is over, or as often as an earlier replicate did."""
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
            # one call fills the warm-up's share of the budget: all that follow are samples
            timing.samples.append(again)
            return
        timing.warmup.append(again)
        timing.warmup_calls += 1
        timing.batch = self._batch(timing.warmup)
        while timing.warmup_calls < count if count is not None else not steady(timing.warmup) and self.now() < enough:
            if self.now() + 2 * timing.batch * timing.warmup[-1] > end:
                # there must be room for a sample, even where as many calls as in an earlier replicate take longer now
                return
            batch = timing.batch if count is None else min(timing.batch, count - timing.warmup_calls)
            timing.warmup.append(self.clock.sample(call, batch))
            timing.warmup_calls += batch
            timing.batch = self._batch(timing.warmup)

    def _batch(self, values: list[float]) -> int:
        """Return the calls per sample, by the fastest of the last window: the very first calls are often slow."""
        fastest, unit = max(min(values[-_WINDOW:]), 1e-9), self.clock.unrolled
        return unit * max(1, min(10_000, math.ceil(self.clock.min_sample / (unit * fastest))))

    def _sample(self, call: Call, timing: Timing, end: float) -> None:
        start, look = self.now(), MIN_SAMPLES
        while not timing.samples or self.now() + (timing.batch + self.reserve) * timing.samples[-1] <= end:
            timing.samples.append(self.clock.sample(call, timing.batch, self.look))
            if len(timing.samples) >= look and self.now() - start >= _MIN_SECONDS:
                if stable(timing.samples):
                    timing.stop = "stable"
                    return
                # sorting all samples after each one would take too much of the budget
                look = math.ceil(1.05 * len(timing.samples))


def steady(values: list[float]) -> bool:
    """Say whether the medians of the last two windows agree within 1 %."""
    if len(values) < 2 * _WINDOW:
        return False
    last, before = statistics.median(values[-_WINDOW:]), statistics.median(values[-2 * _WINDOW : -_WINDOW])
    return abs(last - before) <= _STEADY * before


def stable(values: list[float]) -> bool:
    """Say whether IQR / median is below 1 %, or the median moved by less than 1 % over the last half of the samples."""
    median = statistics.median(values)
    low, _, high = statistics.quantiles(values, n=4)
    return high - low < _STEADY * median or abs(statistics.median(values[: len(values) // 2]) - median) < _STEADY * median
