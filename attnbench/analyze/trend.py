"""Trends: for each track of a history, when its level changed, and when its cell was lost or came back."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from attnbench.analyze.change_points import LEVEL, STAY, Step, deviation, smallest, steps
from attnbench.analyze.compare import EXACT, SMALLEST_BYTES
from attnbench.analyze.quantities import MEMORY, TIME, Center, Quantity, Unit, quantities
from attnbench.analyze.statistics import Interval, Spread
from attnbench.analyze.verdict import Verdict
from attnbench.schema.cell import Batch
from attnbench.schema.history import Entry, Floats, Integers, Track

SMALLEST_SHARE = 0.001
"""Shares of what is right below this count as this: that nothing is right any more is a change, and 0 has no ratio."""


@dataclass(frozen=True)
class Turn:
    """A change of one cell between two of its runs."""

    verdict: Verdict
    """SLOWER where a figure got worse, FASTER where it got better, LOST or GAINED."""
    last: int
    """The last run before, as a position in the list of entries."""
    first: int
    """The first run after."""
    at: int
    """Position in the track of the first point after."""
    before: float = math.nan
    """Geometric mean of the level; for LOST and GAINED the last or the first number; NaN where there is none."""
    after: float = math.nan
    interval: Interval | None = None
    """The 95 % interval of after over before."""
    status: str = ""
    """For LOST and GAINED, how the cell fails or failed."""
    reason: str = ""

    @property
    def factor(self) -> float:
        """After over before; NaN where one of them is not there, or what was before is 0."""
        return self.after / self.before if self.before else math.nan


@dataclass(frozen=True)
class Trend:
    """One track with what was found in it."""

    track: Track
    used: Integers
    """Positions in the track of the points that are compared: those with a positive number, read by one counter."""
    margin: float
    floor: float
    """Smaller numbers are compared as this one."""
    turns: tuple[Turn, ...] = ()
    """In the order of the runs, and only those that are asked for."""
    steps: tuple[Step, ...] = ()
    """All changes of the level, `at` as a position in `used`."""
    passing: int = 0
    """Failures that did not stay for two runs."""
    smallest: float = math.inf
    """The smallest change, as a share, that could have been seen; the margin where noise could not hide one of that size."""

    @property
    def values(self) -> Floats:
        """The numbers that are compared."""
        return np.maximum(self.track.values, self.floor)[self.used]

    @property
    def below_floor(self) -> bool:
        """Whether some of the numbers that are compared are below the floor."""
        return bool((self.track.values[self.used] < self.floor).any())

    @property
    def failing(self) -> bool:
        """Whether the cell fails in its newest run."""
        return bool(self.track.failures[-1] >= 0)

    @property
    def silent(self) -> bool:
        """Whether the newest run has no number that can be compared."""
        return not len(self.used) or self.used[-1] != len(self.track.values) - 1

    @property
    def state(self) -> Verdict:
        """LOST; ABSENT where the newest run has no number; the last turn that was asked for; without one UNCLEAR or SAME.

        UNCLEAR is a series whose noise, or whose few runs, could hide a change of the margin.
        """
        last = self.turns[-1].verdict if self.turns else None
        if self.silent and last is not Verdict.LOST:
            return Verdict.ABSENT
        return last or (Verdict.SAME if self.smallest <= self.margin else Verdict.UNCLEAR)

    @property
    def newest(self) -> float:
        """The number of the newest run; NaN where it has none."""
        return math.nan if self.silent else float(self.track.values[self.used[-1]])

    @property
    def regressed(self) -> bool:
        """Whether the cell was lost or got worse, and stayed so; that it was away in between makes it no better."""
        levels = [turn.verdict for turn in self.turns if turn.verdict in {Verdict.SLOWER, Verdict.FASTER}]
        return self.state is Verdict.LOST or levels[-1:] == [Verdict.SLOWER]

    @property
    def noise(self) -> float:
        """Standard deviation of the logarithms from run to run."""
        return deviation(np.log(self.values))

    @property
    def spread(self) -> float:
        """Typical standard deviation of the logarithms of times within a run; NaN where each has one replicate."""
        known = self.track.spread[~np.isnan(self.track.spread)]
        return float(np.median(known)) if len(known) else math.nan

    @property
    def not_positive(self) -> int:
        """Numbers of 0 or less, which have no ratio to any other and are left out."""
        return int((np.maximum(self.track.values, self.floor) <= 0).sum())

    @property
    def other_counters(self) -> int:
        """Numbers that were read by another counter than the newest, and are left out."""
        return int((np.maximum(self.track.values, self.floor) > 0).sum()) - len(self.used)


@dataclass(frozen=True)
class Trends:
    """All trends of one question, and what was asked."""

    entries: Sequence[Entry]
    trends: tuple[Trend, ...]
    quantity: Quantity
    margin: float
    since: int
    """Only turns from this entry on were asked for."""

    @property
    def turns(self) -> Iterator[tuple[Trend, Turn]]:
        """All changes, each with its trend."""
        return ((trend, turn) for trend in self.trends for turn in trend.turns)

    @property
    def regressed(self) -> list[Trend]:
        """The trends that need a look."""
        return [trend for trend in self.trends if trend.regressed]


def quantity_called(name: str) -> Quantity:
    """Return the quantity of a name in a history; a name that the vocabulary does not know is a memory counter's."""
    return quantities(()).get(name) or Quantity(name, name, Unit.BYTES, lambda _: {}, center=Center.ONCE)


def look(entries: Sequence[Entry], tracks: Sequence[Track], quantity: Quantity, margin: float, since: str = "") -> Trends:
    """Find the turns of all tracks of a quantity; those in runs that started before `since` (ISO 8601, UTC) are not told.

    Older runs are still what newer ones are held against.
    """
    first = sum(not entry.problem and entry.started < since for entry in entries)
    trends = []
    for track in tracks:
        floor = SMALLEST_SHARE if quantity.bounds == (0.0, 1.0) else 0.0
        if quantity.unit is Unit.BYTES and quantity.name not in EXACT and track.cell.batch is not Batch.LARGEST:
            # changes of little memory are page sizes and pools; of the largest batch that fits it is never little
            floor = SMALLEST_BYTES / track.cell.problem.B
        known = np.maximum(track.values, floor) > 0
        if quantity.name == MEMORY and known.any():
            # only those of the counter that was read last
            known &= track.counters == track.counters[known][-1]
        trends.append(Trend(track, np.flatnonzero(known), margin, floor))
    logs = [np.log(trend.values) for trend in trends]
    stepped = steps(logs, margin)
    # what p one step more would have to keep to, among those that were found and all series without any
    level = LEVEL * (1 + sum(map(len, stepped))) / max(1, sum(max(1, len(found)) for found in stepped))
    for i, (trend, y, found) in enumerate(zip(trends, logs, stepped, strict=True)):
        # by time all failures are told; of another figure nothing is lost where none was ever recorded
        told_of = quantity.name == TIME or not np.isnan(trend.track.values).all()
        switches, passing = _switches(trend.track.failures < 0) if told_of else ([], 0)
        # the last word on a cell that comes back slower is that it is slower
        turns = [*(_switch(trend.track, at) for at in switches), *(_step(trend, step, quantity) for step in found)]
        told = tuple(sorted((turn for turn in turns if turn.first >= first), key=lambda turn: turn.at))
        least = smallest(y, found, margin, min(LEVEL, level))
        trends[i] = replace(trend, turns=told, steps=found, passing=passing, smallest=least)
    return Trends(entries, tuple(trends), quantity, margin, first)


def _step(trend: Trend, step: Step, quantity: Quantity) -> Turn:
    height, runs = step.after - step.before, trend.track.runs
    at = int(trend.used[step.at])
    return Turn(
        verdict=Verdict.FASTER if (height > 0) == quantity.more_is_better else Verdict.SLOWER,
        last=int(runs[trend.used[step.at - 1]]),
        first=int(runs[at]),
        at=at,
        before=math.exp(step.before),
        after=math.exp(step.after),
        interval=Interval(math.exp(height - step.half), math.exp(height + step.half), Spread.INTERVAL),
    )


def _switch(track: Track, at: int) -> Turn:
    lost = bool(track.failures[at] >= 0)
    status, reason = track.reasons[int(track.failures[at if lost else at - 1])]
    return Turn(
        verdict=Verdict.LOST if lost else Verdict.GAINED,
        last=int(track.runs[at - 1]),
        first=int(track.runs[at]),
        at=at,
        before=float(track.values[at - 1]) if lost else math.nan,
        after=math.nan if lost else float(track.values[at]),
        status=status,
        reason=reason,
    )


def _switches(ok: NDArray[np.bool_]) -> tuple[list[int], int]:
    """Return where a cell is lost or gained, and how many failures passed.

    A change for a single run is none unless that run is the newest: that a cell fails now is said at once.
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
