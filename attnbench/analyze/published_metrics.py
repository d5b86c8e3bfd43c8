"""The figures that can be read off a run to be held against printed ones, by replicate number."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from attnbench.analyze.cells import CellSummary
from attnbench.analyze.main_counter import MainCounter
from attnbench.analyze.published_cells import NoFigureError, Wanted, cells, failure, missing, one_cell, several
from attnbench.analyze.scaling import fit_interval, memory_exponent, slope, time_exponent
from attnbench.analyze.statistics import Interval
from attnbench.schema.cell import Batch
from attnbench.schema.outcome import (
    BITS,
    FIDELITY_SCORES,
    LEARNT_SCORES,
    LOSS,
    Status,
)
from attnbench.schema.training import Task

TIME, THROUGHPUT, TOKENS, MEMORY, BATCH = "time", "throughput", "tokens", "memory", "batch"
GROWTH, MEMORY_GROWTH, LONGEST = "growth", "memory_growth", "longest"
SCORES = (*LEARNT_SCORES, *FIDELITY_SCORES)
OF_ONE_CELL = (TIME, THROUGHPUT, TOKENS, MEMORY, BATCH, *SCORES)
OVER_LENGTHS = (GROWTH, MEMORY_GROWTH, LONGEST)
"""Of all cells that a side leaves, one for each length."""
RATES = (TIME, THROUGHPUT, TOKENS)
"""Positive, and spread by factors."""


@dataclass(frozen=True)
class Reading:
    """By replicate number; what is exact has no replicates and stands under 0."""

    metric: str
    values: Mapping[int, float]
    unit: str = ""
    exact: bool = False
    below: float | None = None
    """Of what a search came to: the smallest number that was too large."""
    lone: str = ""
    """Why it is not to be held against another's."""
    about: str = ""
    """What else must be said of it."""
    interval: Interval | None = None
    """Of what was fitted once, to all lengths: where it lies by their scatter about the fit."""


@dataclass(frozen=True)
class Measured:
    """The cells of one run, and the memory counter that stands for all."""

    summaries: Sequence[CellSummary]
    counter: MainCounter | None


def read(metric: str, wanted: Wanted, measured: Measured) -> Reading:
    """Raises NoFigureError where a run has no such figure, in words."""
    if metric in OVER_LENGTHS:
        return _OVER_LENGTHS[metric](wanted, measured)
    summary = one_cell(wanted, measured.summaries)
    if metric == MEMORY:
        return _memory(summary, measured.counter)
    if metric == BATCH:
        return _batch(summary)
    values = _RATES[metric](summary) if metric in _RATES else summary.scores.get(metric, {})
    if not values:
        raise NoFigureError(f"{wanted.words}: nothing was recorded of {metric}")
    return Reading(metric, values, _unit(metric, summary))


def _batch(summary: CellSummary) -> Reading:
    """Exact where it was stated; what was searched for lies between what fitted and what did not."""
    if summary.cell.batch is Batch.FIXED:
        return Reading(BATCH, {0: float(summary.B)}, "sequences", exact=True)
    by_memory = summary.bound in {Status.OOM_DEVICE, Status.OOM_HOST}
    lone = "" if by_memory else f"{summary.cell.label} at N={summary.cell.problem.N}: no lack of memory ended its batch"
    return Reading(BATCH, {0: float(summary.B)}, "sequences", summary.refused is None, summary.refused, lone)


_RATES: Mapping[str, Callable[[CellSummary], Mapping[int, float]]] = {
    TIME: lambda s: s.times,
    THROUGHPUT: lambda s: {replicate: 1 / time for replicate, time in s.times.items()},
    TOKENS: lambda s: {replicate: s.tokens / median for replicate, median in s.medians.items()},
}


def _unit(metric: str, summary: CellSummary) -> str:
    training = summary.cell.training
    pixels = training is not None and training.task is Task.PIXELS
    words = {
        TIME: "s",
        THROUGHPUT: "images/s" if pixels else "sequences/s",
        TOKENS: "tokens/s",
        LOSS: "nats",
        BITS: "bits/dim" if pixels else "bits/byte",
    }
    return words.get(metric, "")


def _memory(summary: CellSummary, counter: MainCounter | None) -> Reading:
    """Read once a cell, and hardly ever another in a second process."""
    value = counter.per_sample(summary) if counter else None
    if counter is None or value is None:
        raise NoFigureError(counter.why_not(summary) if counter else "no memory was read in this run")
    return Reading(MEMORY, {0: value}, "B", exact=True, about=counter.name)


def _series(wanted: Wanted, measured: Measured) -> dict[int, CellSummary]:
    """By rising length, one cell each; raises UnclearError where there are two of one length."""
    found = cells(wanted, measured.summaries)
    N, count = Counter(s.cell.problem.N for s in found).most_common(1)[0]
    if count > 1:
        raise several(wanted, [s for s in found if s.cell.problem.N == N])
    return {s.cell.problem.N: s for s in sorted(found, key=lambda s: s.cell.problem.N)}


def _growth(wanted: Wanted, measured: Measured) -> Reading:
    """The x of time ∝ N^x, of each replicate that every length of the fit has."""
    by_length = _series(wanted, measured)
    fit = time_exponent(list(by_length.values()))
    if fit is None:
        raise _too_short(wanted, by_length)
    chosen = [by_length[N] for N in fit.lengths]
    common = set.intersection(*(set(s.medians) for s in chosen))
    values = {r: slope({s.cell.problem.N: s.times[r] for s in chosen}) for r in sorted(common)}
    return Reading(GROWTH, values or {0: fit.value}, about=_span(fit.lengths))


def _memory_growth(wanted: Wanted, measured: Measured) -> Reading:
    """The x of memory ∝ N^x; memory is read once a cell, so its interval is that of the fit."""
    by_length, counter = _series(wanted, measured), measured.counter
    fit = memory_exponent(list(by_length.values()), counter) if counter else None
    if counter is None or fit is None:
        raise _too_short(wanted, by_length)
    points = {N: value for N in fit.lengths if (value := counter.per_sample(by_length[N]))}
    return Reading(MEMORY_GROWTH, {0: fit.value}, interval=fit_interval(points), about=_span(fit.lengths))


def _too_short(wanted: Wanted, by_length: Mapping[int, CellSummary]) -> NoFigureError:
    failed = next((s for s in by_length.values() if not s.ok), None)
    why = f"; {failure(failed)}" if failed else ""
    return missing(failed, f"{wanted.words}: fewer than three lengths have a figure{why}")


def _span(lengths: Sequence[int]) -> str:
    return f"N = {lengths[0]} to {lengths[-1]}"


def _longest(wanted: Wanted, measured: Measured) -> Reading:
    """The largest N that ran, and what ended the row."""
    by_length = _series(wanted, measured)
    ran = [N for N, summary in by_length.items() if summary.ok]
    if not ran:
        first = next(iter(by_length.values()))
        raise missing(first, failure(first))
    beyond = [summary for N, summary in by_length.items() if ran[-1] < N]
    about = f"beyond it {beyond[0].status}" if beyond else "no longer one was tried"
    return Reading(LONGEST, {0: float(ran[-1])}, "tokens", exact=True, about=about)


_OVER_LENGTHS: Mapping[str, Callable[[Wanted, Measured], Reading]] = {
    GROWTH: _growth,
    MEMORY_GROWTH: _memory_growth,
    LONGEST: _longest,
}
