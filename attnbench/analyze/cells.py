"""From records to one summary per cell."""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from attnbench.analyze.counters import Memory, memory_of
from attnbench.analyze.final import final_records
from attnbench.analyze.statistics import Interval, outliers, spread
from attnbench.schema.cell import Cell, Workload
from attnbench.schema.errand import Pass, main_pass
from attnbench.schema.noun import Scalar
from attnbench.schema.outcome import MASS_RECALL, OUTPUT_ERROR, Failed, Measured, Status
from attnbench.schema.record import Record

_METRICS = {Pass.TIME: ("time",), Pass.FIDELITY: (MASS_RECALL, OUTPUT_ERROR)}
"""What a measured record of a pass must hold; the first one is counted."""
OK = "ok"
NOT_RUN = "not_run"


@dataclass(frozen=True)
class CellSummary:
    """What came of one cell over all its replicates; times are seconds per call of the whole batch."""

    cell: Cell
    status: str
    """`ok`, `not_run`, or one of the statuses of a Failed."""
    reason: str = ""
    medians: Mapping[int, float] = field(default_factory=dict)
    """Median of the samples by replicate number; kept where another replicate failed, but then out of every ranking."""
    scores: Mapping[str, Mapping[int, float]] = field(default_factory=dict)
    """Of a cell that is not timed: by metric and replicate number, the mean of the samples."""
    samples: int = 0
    outliers: int = 0
    flags: tuple[str, ...] = ()
    facts: Mapping[str, Scalar | None] = field(default_factory=dict)
    """Of the first measured replicate."""
    memory: Memory = field(default_factory=Memory)
    bound: str = ""
    """How the smallest batch failed that was too large, where the largest was searched for: `oom_host`, `budget`, …"""
    environments: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether every replicate that was run gave its samples."""
        return self.status == OK

    @property
    def median(self) -> float | None:
        """Median of the replicate medians, seconds per call; None unless the cell is ok and was timed."""
        return statistics.median(self.medians.values()) if self.ok and self.medians else None

    @property
    def interval(self) -> Interval | None:
        """Of the replicate medians; None unless the cell is ok and was timed."""
        return spread(tuple(self.medians.values())) if self.ok and self.medians else None

    @property
    def replicates(self) -> int:
        """How many replicates gave their samples."""
        return len(self.medians or next(iter(self.scores.values()), ()))

    @property
    def B(self) -> int:
        """The batch that ran: the problem's, or the largest that was found to fit."""
        found = self.facts.get("B")
        return found if isinstance(found, int) else self.cell.problem.B

    @property
    def per_sample(self) -> float:
        """What turns a figure per call into one per sample of the batch: 1 / B."""
        return 1.0 / self.B

    @property
    def tokens(self) -> int:
        """Tokens that come out of one call."""
        return self.B * (1 if self.cell.workload is Workload.DECODE else self.cell.problem.N)

    def fact(self, name: str) -> str:
        """A recorded fact in words; empty where there is none."""
        value = self.facts.get(name)
        return "" if value is None else str(value)


def summarize(cells: Iterable[Cell], records: Sequence[Record]) -> list[CellSummary]:
    """One summary per planned cell, in order; cells that only records know come last. Checks are not cells of a run."""
    planned = {cell.key: cell for cell in cells}
    grouped: dict[str, list[Record]] = {}
    for record in records:
        if record.job.phase is not Pass.CHECK:
            planned.setdefault(record.job.cell.key, record.job.cell)
            grouped.setdefault(record.job.cell.key, []).append(record)
    return [_summary(cell, grouped.get(key, [])) for key, cell in planned.items()]


def _summary(cell: Cell, records: list[Record]) -> CellSummary:
    main, timed = main_pass(cell), main_pass(cell) is Pass.TIME
    finals = final_records(r for r in records if r.job.phase is main)
    memory = final_records(r for r in records if r.job.phase is Pass.MEMORY)
    status, reason = _status(finals, main)
    measured = {i: r.outcome for i, r in finals.items() if isinstance(r.outcome, Measured) and not _useless(r.outcome, main)}
    series = [outcome.samples[_METRICS[main][0]].values for outcome in measured.values()]
    return CellSummary(
        cell=cell,
        status=status,
        reason=reason,
        medians={i: statistics.median(outcome.samples["time"].values) for i, outcome in measured.items()} if timed else {},
        scores={} if timed else {name: _means(measured, name) for name in _METRICS[main]},
        samples=sum(map(len, series)),
        outliers=sum(map(outliers, series)),
        flags=tuple(dict.fromkeys(flag for outcome in measured.values() for flag in outcome.flags)),
        facts=next((outcome.facts for outcome in measured.values()), {}),
        memory=memory_of(memory.values()),
        bound=_bound(records),
        environments=tuple(dict.fromkeys(r.environment for r in records)),
    )


def _means(measured: Mapping[int, Measured], metric: str) -> dict[int, float]:
    return {i: statistics.fmean(outcome.samples[metric].values) for i, outcome in measured.items()}


def _status(finals: Mapping[int, Record], main: Pass) -> tuple[str, str]:
    """Of the first replicate that failed; an interrupted replicate beside a measured one is one that was not run."""
    failures = [r.outcome for r in finals.values() if isinstance(r.outcome, Failed)]
    grave = [f for f in failures if f.status is not Status.INTERRUPTED]
    useless = [why for r in finals.values() if isinstance(r.outcome, Measured) and (why := _useless(r.outcome, main))]
    if grave:
        return grave[0].status.value, grave[0].reason
    if useless:
        return Status.ERROR.value, useless[0]
    if len(failures) < len(finals):
        return OK, ""
    return (failures[0].status.value, failures[0].reason) if failures else (NOT_RUN, "no record of this cell yet")


def _bound(records: Sequence[Record]) -> str:
    trials = {r.job.B or 1: r.outcome.status for r in records if r.job.phase is Pass.FIT and isinstance(r.outcome, Failed)}
    failed = [B for B, status in trials.items() if status is not Status.INTERRUPTED]
    return trials[min(failed)].value if failed else ""


def _useless(outcome: Measured, main: Pass) -> str:
    """Why the samples are not what the pass is for, or nothing."""
    for name in _METRICS[main]:
        series = outcome.samples.get(name)
        if series is None or not series.values:
            return f"the record holds no samples of {name}"
        if main is Pass.TIME and not all(math.isfinite(value) and value > 0 for value in series.values):
            return "a sample is not a positive number of seconds"
        if not all(map(math.isfinite, series.values)):
            return f"a sample of {name} is not a finite number"
    return ""
