"""The figures by which two methods may be compared over length: of each less is better, per sample of the batch."""

import math
from collections import Counter as Tally
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from attnbench.analyze.cells import CellSummary
from attnbench.analyze.main_counter import STATE, MainCounter, main_counter
from attnbench.schema.cell import Workload
from attnbench.schema.outcome import (
    ACCURACY,
    BITS,
    COSINE,
    GRADIENT_ROUNDING,
    LOSS,
    MASS_RECALL,
    NUMERICS_SCORES,
    OUTPUT_ERROR,
    ROUNDING,
    TOP_OVERLAP,
)

TIME, MEMORY, STATE_BYTES = "time", "memory", "state"
USUAL = (TIME, MEMORY, STATE_BYTES, OUTPUT_ERROR, MASS_RECALL, ROUNDING, GRADIENT_ROUNDING)
"""Those that a run may be made for; one that is there may have counters with names of their own."""
_LESS_IS_BETTER = (OUTPUT_ERROR, *NUMERICS_SCORES, LOSS, BITS)
_MORE_IS_BETTER = (MASS_RECALL, COSINE, TOP_OVERLAP, ACCURACY)
_COMPARED_BY = {Workload.FIDELITY: OUTPUT_ERROR, Workload.NUMERICS: ROUNDING, Workload.TRAIN: LOSS}


def compared_by(workload: Workload) -> str:
    """The figure by which methods are first of all compared: time, or the score that the workload is there for."""
    return _COMPARED_BY.get(workload, TIME)


@dataclass(frozen=True)
class Metric:
    """A figure, read off a cell by replicate number; nothing where the cell has none."""

    name: str
    read: Callable[[CellSummary], Mapping[int, float]]
    replicated: bool = True
    """False of counters, which hardly vary and are read once a cell."""
    about: str = ""
    """What exactly is read, where the name does not say."""

    def of(self, summary: CellSummary | None) -> dict[int, float]:
        """By replicate; 0 has no ratio to anything and is left out."""
        found = self.read(summary) if summary is not None and summary.ok else {}
        return {replicate: value for replicate, value in found.items() if value > 0 and math.isfinite(value)}


def metrics(summaries: Sequence[CellSummary]) -> dict[str, Metric]:
    """By name, those of which at least one of these cells has a figure."""
    main = main_counter(summaries)
    named = [
        Metric(TIME, lambda summary: summary.times),
        *([_counter(MEMORY, main)] if main else []),
        _counter(STATE_BYTES, STATE),
        *map(_score, _LESS_IS_BETTER),
        *map(_inverse, _MORE_IS_BETTER),
        *(_counter(name, MainCounter(name, source)) for name, source in _sources(summaries).items()),
    ]
    return {metric.name: metric for metric in named if any(metric.of(summary) for summary in summaries)}


def _score(name: str) -> Metric:
    return Metric(name, lambda summary: summary.scores.get(name, {}))


def _inverse(name: str) -> Metric:
    """Of a score of which more is better; none where it is not above 0."""
    return Metric(name, lambda summary: {r: 1 / v for r, v in summary.scores.get(name, {}).items() if v > 0})


def _counter(name: str, counter: MainCounter) -> Metric:
    def read(summary: CellSummary) -> dict[int, float]:
        value = counter.per_sample(summary)
        return {} if value is None else {0: value}

    return Metric(name, read, replicated=False, about="" if name == counter.name else counter.name)


def _sources(summaries: Sequence[CellSummary]) -> dict[str, str]:
    """Every counter that was read, with the source that most of its readings have: sources are never mixed."""
    found: dict[str, Tally[str]] = {}
    for summary in summaries:
        for name, counter in summary.memory.counters.items():
            if counter.bytes is not None:
                found.setdefault(name, Tally())[counter.source] += 1
    return {name: tally.most_common(1)[0][0] for name, tally in sorted(found.items())}
