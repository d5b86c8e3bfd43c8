"""A figure of ours for a printed one: read off the cells that a suite names, alone, over another's, or less another's."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from functools import cached_property

from attnbench.analyze.cells import NOT_RUN, CellSummary
from attnbench.analyze.main_counter import main_counter
from attnbench.analyze.points import UNFINISHED
from attnbench.analyze.quantities import MEMORY, TIME, Center, Quantity, Unit
from attnbench.analyze.scaling import exponent, fit_interval, slopes_by_replicate
from attnbench.analyze.statistics import Interval, Spread, by_sums
from attnbench.schema.cell import Batch, Cell, Workload, label
from attnbench.schema.condition import NAMES, compile_condition
from attnbench.schema.figures import OVER_LENGTHS
from attnbench.schema.noun import Scalar
from attnbench.schema.outcome import Status
from attnbench.schema.published import Ours, Side
from attnbench.schema.training import Task

BATCH = "batch"
GROWTH, MEMORY_GROWTH, LONGEST = OVER_LENGTHS
FEWEST = 3
"""Replicates from which on there is an interval: with two degrees of freedom a wide one (t = 4.30), and a right one."""
_NEVER = UNFINISHED | {Status.UNSUPPORTED, Status.MISSING}
"""Statuses of what was not run."""
_SHOWN = 3
"""Cells that are named where there are too many."""


class Lack(Enum):
    """Why a figure cannot be read off a run."""

    NO_CELL = auto()
    """The run was not to have such a cell."""
    NO_NUMBER = auto()
    """Nothing was measured or recorded there."""
    FAILED = auto()
    """The method was run there, and failed."""
    UNCLEAR = auto()
    """There are numbers, and no figure can be made of them."""


class NoFigureError(ValueError):
    """A figure cannot be read off a run; the message says why."""

    def __init__(self, lack: Lack, why: str) -> None:
        super().__init__(why)
        self.lack = lack


class Kind(Enum):
    """A kind says how a figure is made from its sides."""

    ALONE = auto()
    RATIO = auto()
    DIFFERENCE = auto()


@dataclass(frozen=True)
class Figure:
    """A value with its 95 % t interval; no interval of what is exact, nor below three replicates.

    Of a batch that was searched for, the interval is where it may lie: from what fitted to what did not. Of the growth of
    memory it is that of the fit over the lengths.
    """

    value: float
    interval: Interval | None
    replicates: int
    """Pairs, where two sides are compared."""
    kind: Kind
    metric: str
    unit: str = ""
    exact: bool = False
    about: str = ""


@dataclass(frozen=True)
class _Reading:
    """The figures of a side by replicate number; what has no replicates is under 0."""

    values: Mapping[int, float]
    unit: str = ""
    about: str = ""
    exact: bool = False
    by_factors: bool = False
    """Whether it is positive and spreads by factors."""
    interval: Interval | None = None
    """Where it lies, of what was searched for or fitted once."""
    lone: str = ""
    """Why it cannot be held against another's."""


@dataclass(frozen=True)
class _Wanted:
    """A side, what is done there, where in a grid the figure stands, and the cells of the run."""

    side: Side
    workload: Workload
    pinned: Mapping[str, Scalar]
    summaries: Sequence[CellSummary]

    @property
    def words(self) -> str:
        """`linformer.linformer(k=128), forward, N=512`."""
        at = [f"{name}={value}" for name, value in self.pinned.items()]
        return ", ".join([label(self.side.method, self.side.params), self.workload.words, *at, *filter(None, [self.side.when])])

    @cached_property
    def cells(self) -> list[CellSummary]:
        """The cells that are meant, at least one. Raises NoFigureError."""
        side = self.side
        when = compile_condition(side.when, None) if side.when else None

        def fits(cell: Cell) -> bool:
            of_params = all(_same(cell.params.get(name), value) for name, value in side.params.items())
            at = all(_same(cell.values.get(name), value) for name, value in self.pinned.items())
            return of_params and at and (when is None or when(cell.values))

        try:
            found = [s for s in self.summaries if _is_of(s, side, self.workload) and fits(s.cell)]
        except ValueError as error:
            raise NoFigureError(Lack.UNCLEAR, f"{self.words}: {error}") from None
        if not found:
            raise NoFigureError(Lack.NO_CELL, f"the run has no cell of {self.words}")
        return found


def figure(ours: Ours, pinned: Mapping[str, Scalar], summaries: Sequence[CellSummary], known: Mapping[str, Quantity]) -> Figure:
    """Read one figure; two sides are paired by replicate number, as they were measured in turns. Raises NoFigureError."""
    wanted, other = _Wanted(ours.of, ours.workload, pinned, summaries), ours.over or ours.less
    of = _read(ours.metric, wanted, known)
    if other is None:
        _refuse_unlike(wanted.cells)
        value, interval = _mean(list(of.values.values()), by_factors=of.by_factors)
        interval = None if of.exact else of.interval or interval
        return Figure(value, interval, len(of.values), Kind.ALONE, ours.metric, of.unit, of.exact, of.about)
    # a name of the grid counts for the other side only where its method has such a parameter; axes always count
    has = NAMES.union(*(s.cell.params for s in summaries if _is_of(s, other, ours.workload)))
    shared = {name: value for name, value in pinned.items() if name in has}
    beside = _Wanted(other, ours.workload, shared, summaries)
    against = _read(ours.metric, beside, known)
    _refuse_unlike([*wanted.cells, *beside.cells])
    is_ratio = ours.over is not None
    if is_ratio and any(value <= 0 for side in (of, against) for value in side.values.values()):
        raise NoFigureError(Lack.UNCLEAR, f"a {ours.metric} of 0 or less has no ratio to anything")
    if is_ratio and (lone := of.lone or against.lone):
        raise NoFigureError(Lack.UNCLEAR, lone)
    pairs = [(of.values[r], against.values[r]) for r in sorted(of.values.keys() & against.values.keys())]
    if not pairs:
        raise NoFigureError(Lack.UNCLEAR, "no replicate has numbers of both sides")
    value, interval = _mean([a / b if is_ratio else a - b for a, b in pairs], by_factors=is_ratio)
    exact = of.exact and against.exact
    if (of.interval or against.interval) and (ours.metric == BATCH or not is_ratio):
        # a number that was searched for, or fitted once, is known to lie between two others
        a, b = (side.interval or Interval(side.values[0], side.values[0], Spread.BAND) for side in (of, against))
        low, high = (a.low / b.high, a.high / b.low) if is_ratio else (a.low - b.high, a.high - b.low)
        interval = Interval(low, high, Spread.BAND)
    about = of.about if of.about == against.about else "; ".join(filter(None, (of.about, f"the other: {against.about}")))
    kind, unit = (Kind.RATIO, "×") if is_ratio else (Kind.DIFFERENCE, of.unit)
    return Figure(value, None if exact else interval, len(pairs), kind, ours.metric, unit, exact, about)


def _refuse_unlike(cells: Sequence[CellSummary]) -> None:
    """Raise NoFigureError where these cells were measured on unlike devices, as parts of a run may be."""
    if len({summary.environment for summary in cells if summary.ok}) > 1:
        raise NoFigureError(Lack.UNCLEAR, "its cells were measured on unlike devices")


def _mean(values: Sequence[float], *, by_factors: bool) -> tuple[float, Interval | None]:
    """Return the mean and its t interval; by factors those of the logarithms, turned back."""
    found = by_sums([math.log(value) for value in values] if by_factors else values, enough=FEWEST)
    mean, low, high = (math.exp(each) if by_factors else each for each in (found.value, *found.ends))
    return mean, Interval(low, high, Spread.INTERVAL) if len(values) >= FEWEST else None


def _read(metric: str, wanted: _Wanted, known: Mapping[str, Quantity]) -> _Reading:
    """Read a metric of one side: of its one cell, or of all its lengths."""
    found = wanted.cells
    if metric in OVER_LENGTHS:
        N, count = Counter(s.cell.problem.N for s in found).most_common(1)[0]
        if count > 1:
            raise _several(wanted, [s for s in found if s.cell.problem.N == N])
        series = sorted(found, key=lambda s: s.cell.problem.N)
        return _longest(series) if metric == LONGEST else _growth(wanted, series, known[TIME if metric == GROWTH else MEMORY])
    if len(found) > 1:
        raise _several(wanted, found)
    (summary,) = found
    if not summary.ok:
        raise _missing(summary)
    if metric == BATCH:
        return _batch(summary)
    quantity = known[metric]
    values = quantity.values(summary)
    if not values and metric == MEMORY:
        counter = main_counter(wanted.summaries)
        raise NoFigureError(Lack.NO_NUMBER, counter.why_not(summary) if counter else "no memory was read in this run")
    if not values:
        raise NoFigureError(Lack.NO_NUMBER, f"{wanted.words}: nothing was recorded of {metric}")
    by_factors = quantity.center in {Center.FACTORS, Center.RATES}
    pixels = summary.cell.training is not None and summary.cell.training.task is Task.PIXELS
    special = {
        Unit.SEQUENCES: "images/s" if pixels else Unit.SEQUENCES.value,
        Unit.BITS: "bits/dim" if pixels else "bits/byte",
        Unit.SHARE: "",
        Unit.FACTOR: "",
    }
    unit = special.get(quantity.unit, quantity.unit.value)
    return _Reading(values, unit, quantity.about, not quantity.is_replicated, by_factors)


def _batch(summary: CellSummary) -> _Reading:
    """Read the batch; one that was searched for lies between what fitted and what did not."""
    values = {0: float(summary.B)}
    if summary.cell.batch is Batch.FIXED:
        return _Reading(values, "sequences", exact=True)
    lone = ""
    if summary.bound not in {Status.OOM_DEVICE, Status.OOM_HOST}:
        lone = f"{summary.cell.label} at N={summary.cell.problem.N}: no lack of memory ended its batch"
    between = None if summary.refused is None else Interval(float(summary.B), float(summary.refused), Spread.BAND)
    return _Reading(values, "sequences", exact=between is None, interval=between, lone=lone)


def _growth(wanted: _Wanted, series: Sequence[CellSummary], quantity: Quantity) -> _Reading:
    """Read the x of time or memory ∝ N^x; of what is read once a cell the interval is that of the fit."""
    fit = exponent(series, quantity)
    if fit is None:
        raise _missing(next((s for s in series if not s.ok), None), f"{wanted.words}: fewer than three lengths have a figure")
    about = f"N = {fit.lengths[0]} to {fit.lengths[-1]}"
    points = {s.cell.problem.N: quantity.values(s) for s in series if s.cell.problem.N in fit.lengths}
    if quantity.is_replicated:
        return _Reading(slopes_by_replicate(points) or {0: fit.value}, about=about)
    return _Reading({0: fit.value}, about=about, interval=fit_interval({N: values[0] for N, values in points.items()}))


def _longest(series: Sequence[CellSummary]) -> _Reading:
    """Read the largest N that ran, and what ended the row."""
    ran = [s.cell.problem.N for s in series if s.ok]
    if not ran:
        raise _missing(series[0])
    beyond = next((s for s in series if ran[-1] < s.cell.problem.N), None)
    if beyond and beyond.status in UNFINISHED:
        raise _missing(beyond)
    about = f"beyond it {beyond.status}" if beyond else "no longer one was tried"
    return _Reading({0: float(ran[-1])}, "tokens", about, exact=True)


def _is_of(summary: CellSummary, side: Side, workload: Workload) -> bool:
    return summary.cell.method == side.method and summary.cell.workload is workload


def _same(found: Scalar | None, wanted: Scalar) -> bool:
    """Compare two values; 1 and True are not the same."""
    return found == wanted and isinstance(found, bool) == isinstance(wanted, bool)


def _several(wanted: _Wanted, found: Sequence[CellSummary]) -> NoFigureError:
    """Return the error that names the cells, in the words by which they differ."""
    all_values = [s.cell.values for s in found]
    names = [
        ", ".join(f"{name}={value}" for name, value in each.items() if any(o.get(name) != value for o in all_values))
        for each in all_values[:_SHOWN]
    ]
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return NoFigureError(Lack.UNCLEAR, f"{wanted.words} leaves {len(found)} cells: {'; '.join(names)}{more}")


def _missing(summary: CellSummary | None, words: str = "") -> NoFigureError:
    """Return the error for want of this cell: one that was run, and failed, is not one that nobody ran.

    After the words it says `softmax.naive at N=8192: oom_host: memory limit reached`.
    """
    if summary is None:
        return NoFigureError(Lack.NO_NUMBER, words)
    status = "" if summary.status == NOT_RUN else f"{summary.status}: "
    failure = f"{summary.cell.label} at N={summary.cell.problem.N}: {status}{summary.reason}"
    lack = Lack.NO_NUMBER if summary.status in _NEVER else Lack.FAILED
    return NoFigureError(lack, "; ".join(filter(None, (words, failure))))
