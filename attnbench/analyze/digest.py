"""Digest: what a record says once its samples are boiled down; a tenth of its size."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from attnbench.analyze.statistics import outliers
from attnbench.schema.errand import Pass, main_pass
from attnbench.schema.noun import Scalar
from attnbench.schema.outcome import (
    ACCURACY,
    BITS,
    COMPLETED,
    CURVE,
    CURVE_ACCURACY,
    DRAWN,
    FIDELITY_SCORES,
    GIVEN,
    LOSS,
    MASS_RECALL,
    NUMERICS_SCORES,
    OUTPUT_ERROR,
    ROUNDING,
    Counter,
    Failed,
    Measured,
    Status,
)
from attnbench.schema.record import Record

METRICS = {
    Pass.TIME: ("time",),
    Pass.FIDELITY: (MASS_RECALL, OUTPUT_ERROR),
    Pass.NUMERICS: (ROUNDING,),
    Pass.TRAIN: ("time", LOSS),
}
"""What a measured record of a pass must hold; the first one is counted."""
MORE = {Pass.FIDELITY: FIDELITY_SCORES, Pass.NUMERICS: NUMERICS_SCORES, Pass.TRAIN: (ACCURACY, BITS)}
"""What it may hold besides."""
WHOLE = {Pass.TRAIN: (*CURVE, CURVE_ACCURACY, DRAWN, COMPLETED, GIVEN)}
"""Series that mean something by their order, and are kept as they are."""
_NOTHING: Mapping[str, Scalar | None] = {}
_NO_SERIES: Mapping[str, tuple[float, ...]] = {}


@dataclass(frozen=True, slots=True)
class Digest:
    """Of one record."""

    attempt: int
    B: int | None
    failed: Failed | None
    useless: str
    """Why the samples are not what the pass is for, or nothing."""
    values: Mapping[str, float]
    """By metric: the median of the times, the mean of scores; empty where there is a failure or nothing useful."""
    samples: int
    outliers: int
    flags: tuple[str, ...]
    memory: Mapping[str, Counter]
    facts: Mapping[str, Scalar | None]
    series: Mapping[str, tuple[float, ...]]
    """By name, those that mean something by their order."""

    @property
    def interrupted(self) -> bool:
        """Whether it is as good as none."""
        return self.failed is not None and self.failed.status is Status.INTERRUPTED

    @property
    def useful(self) -> bool:
        """Whether there are numbers."""
        return self.failed is None and not self.useless


def digest(record: Record, *, facts: bool = True) -> Digest:
    """Boil down; the facts of a replicate are left out where they are not wanted."""
    job, outcome = record.job, record.outcome
    if isinstance(outcome, Failed):
        return Digest(job.attempt, job.B, outcome, "", {}, 0, 0, (), {}, _NOTHING, _NO_SERIES)
    main = main_pass(job.cell)
    wanted, more, whole = _asked(main, outcome) if job.phase is main else ((), (), ())
    useless = why_useless(outcome, (*wanted, *more))
    rising = {} if useless else {name: sorted(outcome.samples[name].values) for name in (*wanted, *more)}
    values = {name: _middle(name, samples) for name, samples in rising.items()}
    counted = rising[wanted[0]] if rising else []
    kept = outcome.facts if facts else _NOTHING
    series = {name: outcome.samples[name].values for name in whole} if whole else _NO_SERIES
    return Digest(
        job.attempt, job.B, None, useless, values, len(counted), outliers(counted), outcome.flags, outcome.memory, kept, series
    )


def _asked(main: Pass, outcome: Measured) -> tuple[tuple[str, ...], ...]:
    """What must be there, what else is, and what is kept whole."""
    there = outcome.samples.keys()
    must = METRICS[main]
    more = tuple(name for name in MORE.get(main, ()) if name in there and name not in must)
    return must, more, tuple(name for name in WHOLE.get(main, ()) if name in there)


def _middle(name: str, samples: Sequence[float]) -> float:
    return statistics.median(samples) if name == "time" else statistics.fmean(samples)


def why_useless(outcome: Measured, wanted: tuple[str, ...]) -> str:
    """Why the samples are not what the pass is for, or nothing."""
    for name in wanted:
        series = outcome.samples.get(name)
        if series is None or not series.values:
            return f"the record holds no samples of {name}"
        # one sample that is no number makes the sum none
        finite = math.isfinite(sum(series.values))
        if name == "time" and not (finite and min(series.values) > 0):
            return "a sample is not a positive number of seconds"
        if not finite:
            return f"a sample of {name} is not a finite number"
    return ""
