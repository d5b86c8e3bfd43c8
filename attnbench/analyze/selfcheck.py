"""What a selfcheck found: how often one method is told apart from itself, and which slow-down would have been found."""

import math
import statistics
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TypeVar

from attnbench.analyze.cells import summarize
from attnbench.analyze.pooled import Rule, rules
from attnbench.analyze.power import SURE, Hits, Power, Sides, power, smallest
from attnbench.analyze.ratio import Ratio, ratio
from attnbench.analyze.statistics import variance
from attnbench.analyze.verdict import Verdict, judge
from attnbench.schema.errand import Pass
from attnbench.schema.outcome import Measured
from attnbench.schema.record import Record
from attnbench.schema.selfcheck import Place, Selfcheck

FEWEST = 100
"""Verdicts below which a hit rate of nine in ten is known too badly to be the noise floor of a machine."""
_COUNTS = (3, 5, 10, 20)
_T = TypeVar("_T")


@dataclass(frozen=True)
class Calibration:
    """How verdicts behave on this machine; all of it from the stored medians."""

    plan: Selfcheck
    margin: float
    paired: tuple[Power, ...]
    """By rising replicates; the last one is what was planned. Sides that ran one after the other, and are paired."""
    unpaired: tuple[Power, ...]
    """The same processes, as two stored runs would be compared."""
    others: tuple[Rule, ...]
    """What rules that pool all samples say of the processes of the last ones."""
    together: Hits
    """Alarms among all verdicts where they are judged as one suite."""
    overall: Ratio | None
    """B over A, every pair of processes of all verdicts."""
    seconds: float | None
    """A call: geometric mean of all medians."""
    processes: float | None
    """Standard deviation of the log medians of one side and round."""
    rounds: float | None
    """The slowest round's geometric mean over the fastest one's, less 1."""
    lost: int
    """Processes without a median."""
    reason: str
    """Why, of the first one; empty where none was lost."""
    flags: Mapping[str, int]
    """How many processes were marked `noisy`, `loaded`, …"""

    @property
    def measured(self) -> int:
        """Processes with a median."""
        return self.plan.processes - self.lost

    @property
    def floor(self) -> tuple[tuple[int, float], ...]:
        """By replicates a side: the slow-down that an interleaved comparison tells from chance nine times in ten."""
        if self.plan.injected:
            return ()
        effects = ((p.replicates, smallest(p.bare, SURE).effect) for p in self.paired if p.slower.of >= FEWEST)
        return tuple((replicates, effect) for replicates, effect in effects if effect is not None)


def calibrate(plan: Selfcheck, records: Sequence[Record], margin: float) -> Calibration:
    """From the records alone; any number of them, also none."""
    cells = summarize(plan.sides, records)
    medians = {number: median for cell in cells for number, median in cell.medians.items() if number < plan.processes}
    outcomes = _outcomes(records, medians)
    counts = [count for count in _COUNTS if count < plan.replicates] + [plan.replicates]
    sides = {count: _sides(plan, medians, count) for count in counts}
    lost = plan.processes - len(medians)
    return Calibration(
        plan=plan,
        margin=margin,
        paired=tuple(power(sides[count], count, margin, paired=True) for count in counts),
        unpaired=tuple(power(sides[count], count, margin, paired=False) for count in counts),
        others=rules(_pooled(plan, outcomes), margin),
        together=_together(sides[plan.replicates], margin),
        overall=_overall(plan, medians),
        seconds=math.exp(statistics.fmean(map(math.log, medians.values()))) if medians else None,
        processes=_between_processes(plan, medians),
        rounds=_between_rounds(plan, medians),
        lost=lost,
        reason=next((f"{cell.status}: {cell.reason}" for cell in cells if not cell.ok), "") if lost else "",
        flags=dict(sorted(Counter(flag for outcome in outcomes.values() for flag in outcome.flags).items())),
    )


def looked_at(plan: Selfcheck, records: Sequence[Record], count: int) -> list[Ratio]:
    """B over A of every verdict after its first so many processes a side, paired; of those that lack none."""
    cells = summarize(plan.sides, records)
    medians = {number: median for cell in cells for number, median in cell.medians.items() if number < plan.processes}
    sides = ([_side(plan, medians, verdict, side, range(count)) for side in (0, 1)] for verdict in range(plan.verdicts))
    return [ratio(a, b, paired=True) for a, b in sides if len(a) == len(b) == count]


def _outcomes(records: Iterable[Record], known: Container[int]) -> dict[int, Measured]:
    """Of the processes that gave a time; of one that was repeated, the last attempt."""
    found: dict[int, Measured] = {}
    for record in records:
        if record.job.phase is Pass.TIME and record.job.replicate in known and isinstance(record.outcome, Measured):
            found[record.job.replicate] = record.outcome
    return found


def _sides(plan: Selfcheck, values: Mapping[int, _T], count: int) -> list[tuple[dict[int, _T], dict[int, _T]]]:
    """A and B of all verdicts of so many replicates a side; what was planned gives several of fewer, which share nothing.

    A verdict that lacks a process is left out.
    """
    found = []
    for verdict in range(plan.verdicts):
        for start in range(0, plan.replicates - count + 1, count):
            a, b = (_side(plan, values, verdict, side, range(start, start + count)) for side in (0, 1))
            if len(a) == len(b) == count:
                found.append((a, b))
    return found


def _side(plan: Selfcheck, values: Mapping[int, _T], verdict: int, side: int, rounds: range) -> dict[int, _T]:
    numbers = {r: plan.number(Place(verdict, side, r)) for r in rounds}
    return {r: values[number] for r, number in numbers.items() if number in values}


def _pooled(plan: Selfcheck, outcomes: Mapping[int, Measured]) -> list[tuple[list[float], list[float]]]:
    """Of each verdict that lacks nothing, all samples of A, and of B."""
    samples = {number: outcome.samples["time"].values for number, outcome in outcomes.items()}
    return [
        (list(chain.from_iterable(a.values())), list(chain.from_iterable(b.values())))
        for a, b in _sides(plan, samples, plan.replicates)
    ]


def _together(sides: Sequence[Sides], margin: float) -> Hits:
    verdicts = judge([ratio(a, b, paired=True) for a, b in sides], margin)
    return Hits(sum(verdict in {Verdict.FASTER, Verdict.SLOWER} for verdict in verdicts), len(verdicts))


def _overall(plan: Selfcheck, medians: Mapping[int, float]) -> Ratio | None:
    both: tuple[dict[int, float], dict[int, float]] = ({}, {})
    for number, median in medians.items():
        both[plan.place(number).side][plan.pair(number)] = median
    return ratio(*both, paired=True) if both[0].keys() & both[1].keys() else None


def _by(plan: Selfcheck, medians: Mapping[int, float], *, side: bool) -> list[list[float]]:
    """Log medians of each round, or of each round and side."""
    groups: dict[tuple[int, int], list[float]] = {}
    for number, median in medians.items():
        place = plan.place(number)
        groups.setdefault((place.replicate, place.side if side else 0), []).append(math.log(median))
    return list(groups.values())


def _between_processes(plan: Selfcheck, medians: Mapping[int, float]) -> float | None:
    """Pooled over rounds and sides, so that neither drift nor a slow-down made on purpose counts."""
    groups = [group for group in _by(plan, medians, side=True) if len(group) > 1]
    degrees = sum(len(group) - 1 for group in groups)
    squares = sum(variance(group) * (len(group) - 1) for group in groups)
    return math.sqrt(squares / degrees) if degrees else None


def _between_rounds(plan: Selfcheck, medians: Mapping[int, float]) -> float | None:
    means = [statistics.fmean(group) for group in _by(plan, medians, side=False)]
    return math.expm1(max(means) - min(means)) if len(means) > 1 else None
