"""Digest: what a record says once its samples are boiled down; a tenth of its size."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from attnbench.analyze.statistics import outliers
from attnbench.schema import outcome
from attnbench.schema.errand import Pass, main_pass
from attnbench.schema.noun import Scalar
from attnbench.schema.outcome import Counter, Failed, Status
from attnbench.schema.record import Record

_OF_A_CALL = (outcome.FIRST_CALL, outcome.ATTENTION_SHARE, outcome.SELECTION_SHARE, outcome.ENERGY)
_SERIES = {
    Pass.TIME: (("time",), _OF_A_CALL),
    Pass.FIDELITY: ((outcome.OUTPUT_ERROR,), outcome.FIDELITY_SCORES),
    Pass.NUMERICS: ((outcome.ROUNDING,), outcome.NUMERICS_SCORES),
    Pass.TRAIN: (("time", outcome.LOSS), (outcome.ACCURACY, outcome.ERROR_RATE, outcome.BITS)),
    Pass.QUALITY: ((outcome.PERPLEXITY,), outcome.QUALITY_SCORES),
}
"""Series that a measured record of a pass must hold, samples of the first of which are counted, and those that it may hold."""
_FACTORS, _LEAST = {"time", *_OF_A_CALL}, 1e-12
"""Series that differ by factors, and the least of them that can be: smaller numbers may be 0 once divided by a batch."""
_IMAGES = (outcome.DRAWN, outcome.COMPLETED, outcome.GIVEN)
_WHOLE = (*outcome.CURVE, outcome.CURVE_ACCURACY, outcome.CURVE_ERROR_RATE, *_IMAGES)
"""Series of training that mean something by their order, and are kept as they are."""


@dataclass(frozen=True, slots=True)
class Digest:
    """One record, boiled down."""

    attempt: int
    failed: Failed | None
    useless: str
    """Say why the samples are not what the pass is for, or nothing."""
    values: Mapping[str, float]
    """One number a series: the median of times, the mean of scores; empty of a failure or where nothing is useful."""
    samples: int
    outliers: int
    flags: tuple[str, ...]
    memory: Mapping[str, Counter]
    facts: Mapping[str, Scalar | None]
    series: Mapping[str, tuple[float, ...]]
    """Series whose order means something, by name."""

    @property
    def interrupted(self) -> bool:
        """Say whether the job was interrupted, so that the record is as good as none."""
        return self.failed is not None and self.failed.status is Status.INTERRUPTED

    @property
    def useful(self) -> bool:
        """Say whether there are numbers."""
        return self.failed is None and not self.useless


def digest(record: Record, *, facts: bool = True) -> Digest:
    """Boil down; the facts of a replicate are left out where they are not wanted."""
    job, found = record.job, record.outcome
    if isinstance(found, Failed):
        return Digest(job.attempt, found, "", {}, 0, 0, (), {}, {}, {})
    main, there = main_pass(job.cell), found.samples
    wanted: list[str] = []
    series: dict[str, tuple[float, ...]] = {}
    if job.phase is main:
        must, may = _SERIES[main]
        wanted = [*must, *(name for name in may if name in there and name not in must)]
        series = {name: there[name].values for name in _WHOLE if name in there}
    rising = {name: sorted(there[name].values) for name in wanted if name in there}
    if useless := _why_useless(rising, wanted):
        rising = {}
    middles = {name: (statistics.median if name == "time" else statistics.fmean)(values) for name, values in rising.items()}
    counted = rising[wanted[0]] if rising else []
    kept = found.facts if facts else {}
    return Digest(job.attempt, None, useless, middles, len(counted), outliers(counted), found.flags, found.memory, kept, series)


def _why_useless(rising: Mapping[str, Sequence[float]], wanted: Sequence[str]) -> str:
    """Say why the sorted samples are not what the pass is for, or nothing."""
    for name in wanted:
        values = rising.get(name)
        if not values:
            return f"the record holds no samples of {name}"
        # one sample that is no number makes the sum none
        finite = math.isfinite(sum(values))
        if name in _FACTORS and not (finite and values[0] >= _LEAST):
            return f"a sample of {name} is not a positive number"
        if not finite:
            return f"a sample of {name} is not a finite number"
    return ""


def counts_over(new: Digest, known: Digest | None) -> bool:
    """Say which of two records of one replicate counts: the last attempt; an interrupted one only where there is no other."""
    return known is None or (not new.interrupted, new.attempt) >= (not known.interrupted, known.attempt)
