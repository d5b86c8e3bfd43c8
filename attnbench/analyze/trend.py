"""Trends: for each track of a history, when its level changed, and when its cell was lost or came back."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from attnbench.analyze.change_points import FEWEST, LEVEL, STAY, Step, deviation, smallest, steps
from attnbench.analyze.compare import SMALLEST_BYTES
from attnbench.analyze.statistics import Interval, Spread
from attnbench.analyze.verdict import MARGIN, Verdict
from attnbench.schema.history import Entry, Floats, Integers, Track


class Metric(StrEnum):
    """What is followed, per sample of the batch."""

    TIME = "time"
    MEMORY = "memory"


@dataclass(frozen=True)
class Turn:
    """What changed for one cell between two of its runs."""

    verdict: Verdict
    """SLOWER, FASTER (of memory: more, less), LOST or GAINED."""
    last: int
    """The last run before, as a position in the list of entries."""
    first: int
    """The first run after."""
    at: int
    """Position in the track of the first point after."""
    before: float = math.nan
    """Geometric mean of the level; of what was lost or gained the last or the first number; NaN where there is none."""
    after: float = math.nan
    interval: Interval | None = None
    """95 %, of after over before."""
    status: str = ""
    """Of what was lost or gained, how it fails or failed."""
    reason: str = ""

    @property
    def factor(self) -> float:
        """After over before."""
        return self.after / self.before


@dataclass(frozen=True)
class Trend:
    """One track, looked at."""

    track: Track
    metric: Metric
    used: Integers
    """Positions in the track of the points that have the number."""
    turns: tuple[Turn, ...] = ()
    """In the order of the runs, and only those that are asked for."""
    steps: tuple[Step, ...] = ()
    """All of them, `at` as a position in `used`."""
    passing: int = 0
    """Failures that did not stay for two runs."""
    margin: float = MARGIN
    smallest: float = math.inf
    """The smallest change, as a share, that could have been seen; the margin where none of that size was hidden by noise."""

    @property
    def values(self) -> Floats:
        """Seconds or bytes of the points that have them."""
        return values(self.track, self.metric)[self.used]

    @property
    def failing(self) -> bool:
        """Whether the cell fails in its newest run."""
        return bool(self.track.failures[-1] >= 0)

    @property
    def state(self) -> Verdict:
        """The last turn that was asked for; without one ABSENT where the newest run has no number, UNCLEAR, or SAME.

        UNCLEAR is a series whose noise, or whose few runs, could hide a change of the margin.
        """
        if self.turns:
            return self.turns[-1].verdict
        if self.failing or not len(self.used):
            return Verdict.ABSENT
        return Verdict.SAME if self.smallest <= self.margin else Verdict.UNCLEAR

    @property
    def newest(self) -> float:
        """The newest number; NaN where there is none."""
        return float(self.values[-1]) if len(self.used) else math.nan

    @property
    def noise(self) -> float:
        """Standard deviation of the logarithms from run to run."""
        return deviation(np.log(self.values))

    @property
    def spread(self) -> float:
        """Typical standard deviation of the logarithms within a run; NaN where each has one replicate."""
        known = self.track.spread[~np.isnan(self.track.spread)]
        return float(np.median(known)) if len(known) else math.nan

    @property
    def few(self) -> bool:
        """Whether there are too few numbers to see any change."""
        return len(self.used) < FEWEST

    @property
    def other_counters(self) -> int:
        """Points of memory that were read by another counter than the newest, and are left out."""
        return int((self.track.counters >= 0).sum()) - len(self.used) if self.metric is Metric.MEMORY else 0


@dataclass(frozen=True)
class Trends:
    """All trends of one question, and what was asked."""

    entries: Sequence[Entry]
    trends: tuple[Trend, ...]
    metric: Metric = Metric.TIME
    margin: float = MARGIN
    since: int = 0
    """Only turns from this entry on were asked for."""

    @property
    def unreadable(self) -> list[Entry]:
        """Runs that could not be read."""
        return [entry for entry in self.entries if entry.problem]

    @property
    def turns(self) -> Iterator[tuple[Trend, Turn]]:
        """All of them."""
        return ((trend, turn) for trend in self.trends for turn in trend.turns)

    @property
    def regressed(self) -> list[Trend]:
        """What was lost or got worse, and stayed so."""
        return [trend for trend in self.trends if trend.state in {Verdict.LOST, Verdict.SLOWER}]


def look(entries: Sequence[Entry], tracks: Sequence[Track], metric: Metric, margin: float, since: str = "") -> Trends:
    """Find the turns of all tracks; those in runs that started before `since` (ISO 8601, UTC) are not told.

    Older runs are still what newer ones are held against.
    """
    first = sum(not entry.problem and entry.started < since for entry in entries)
    used = [_used(track, metric) for track in tracks]
    logs = [np.log(values(track, metric)[chosen]) for track, chosen in zip(tracks, used, strict=True)]
    stepped = steps(logs, margin)
    # what p one step more would have to keep to, among those that were found and all series without any
    level = LEVEL * (1 + sum(map(len, stepped))) / max(1, sum(max(1, len(found)) for found in stepped))
    trends = [
        _trend(track, metric, chosen, found, first, margin, smallest(y, found, margin, min(LEVEL, level)))
        for track, chosen, found, y in zip(tracks, used, stepped, logs, strict=True)
    ]
    return Trends(
        entries=entries,
        trends=tuple(trends),
        metric=metric,
        margin=margin,
        since=first,
    )


def values(track: Track, metric: Metric) -> Floats:
    """Of all points, NaN where there is none. Little memory counts as 1 MiB: its changes are page sizes and pools."""
    return track.seconds if metric is Metric.TIME else np.maximum(track.bytes, SMALLEST_BYTES)


def _used(track: Track, metric: Metric) -> Integers:
    """Positions of the points with a number; of memory, only those of the counter that was read last."""
    if metric is Metric.TIME:
        return np.flatnonzero(~np.isnan(track.seconds))
    known = track.counters[track.counters >= 0]
    return np.flatnonzero(track.counters == known[-1]) if len(known) else np.zeros(0, dtype=np.int64)


def _trend(
    track: Track, metric: Metric, used: Integers, found: tuple[Step, ...], first: int, margin: float, least: float
) -> Trend:
    switches, passing = _switches(track.failures < 0)
    # of a cell that comes back slower, the last word is that it is slower
    turns = [*(_switch(track, metric, at) for at in switches), *(_step(track, used, step) for step in found)]
    told = sorted((turn for turn in turns if turn.first >= first), key=lambda turn: turn.at)
    return Trend(track, metric, used, tuple(told), found, passing, margin, least)


def _step(track: Track, used: Integers, step: Step) -> Turn:
    height = step.after - step.before
    low, high = math.exp(height - step.half), math.exp(height + step.half)
    at = int(used[step.at])
    return Turn(
        verdict=Verdict.SLOWER if height > 0 else Verdict.FASTER,
        last=int(track.runs[used[step.at - 1]]),
        first=int(track.runs[at]),
        at=at,
        before=math.exp(step.before),
        after=math.exp(step.after),
        interval=Interval(low, high, Spread.INTERVAL),
    )


def _switch(track: Track, metric: Metric, at: int) -> Turn:
    lost = bool(track.failures[at] >= 0)
    status, reason = track.reasons[track.failures[at if lost else at - 1]]
    number = float(values(track, metric)[at - 1 if lost else at])
    return Turn(
        verdict=Verdict.LOST if lost else Verdict.GAINED,
        last=int(track.runs[at - 1]),
        first=int(track.runs[at]),
        at=at,
        before=number if lost else math.nan,
        after=math.nan if lost else number,
        status=status,
        reason=reason,
    )


def _switches(ok: NDArray[np.bool_]) -> tuple[list[int], int]:
    """Where a cell is lost or gained, and how many failures passed.

    A change for a single run is none, but where it is the newest: that a cell fails now is said at once.
    """
    found, passing, state = [], 0, bool(ok[0])
    changes = (np.flatnonzero(ok[1:] != ok[:-1]) + 1).tolist()
    for at, until in pairwise([*changes, len(ok)]):
        stays = until - at >= STAY or until == len(ok)
        if bool(ok[at]) != state and stays:
            found.append(at)
            state = bool(ok[at])
        elif not ok[at] and state:
            passing += until - at
    return found, passing
