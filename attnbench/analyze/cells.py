"""Summarise the records of each cell: its replicates, its scores, its curves, its memory, or why it failed."""

import gc
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

from attnbench.analyze.digest import Digest, counts_over, digest
from attnbench.analyze.statistics import Estimate, by_factors
from attnbench.schema.cell import Cell, Workload
from attnbench.schema.errand import Pass, main_pass
from attnbench.schema.noun import Scalar
from attnbench.schema.outcome import CURVE, Counter, Status
from attnbench.schema.record import Record

OK = "ok"
NOT_RUN = "not_run"
_UPDATES, _SECONDS, LOSSES = CURVE
_T = TypeVar("_T")


@dataclass(frozen=True)
class Memory:
    """Counters by name, bytes of the whole batch; where there are none at all, the reason."""

    counters: Mapping[str, Counter] = field(default_factory=dict)
    reason: str = "no memory pass was recorded"
    flags: tuple[str, ...] = ()
    replicates: int = 0

    def bytes(self, name: str) -> int | None:
        """Return one counter; None where it was not read."""
        counter = self.counters.get(name)
        return None if counter is None else counter.bytes

    def why_not(self, name: str) -> str:
        """Say why a counter was not read; nothing where it was."""
        counter = self.counters.get(name)
        if counter is None:
            return self.reason or f"{name} was not recorded"
        return "" if counter.bytes is not None else counter.reason or "it was not read"


@dataclass(frozen=True)
class CellSummary:
    """One cell over all its replicates; medians are seconds per call of the whole batch."""

    cell: Cell
    status: str
    """`ok`, `not_run`, or one of the statuses of a Failed."""
    reason: str = ""
    medians: Mapping[int, float] = field(default_factory=dict)
    """Median of the samples by replicate number; kept where another replicate failed, but then out of every ranking."""
    scores: Mapping[str, Mapping[int, float]] = field(default_factory=dict)
    """Figures besides the time, by name and replicate number: the mean of the samples."""
    series: Mapping[str, Mapping[int, tuple[float, ...]]] = field(default_factory=dict)
    """Samples whose order means something, by name and replicate number: curves of training, pixels of images."""
    samples: int = 0
    outliers: int = 0
    flags: tuple[str, ...] = ()
    facts: Mapping[str, Scalar | None] = field(default_factory=dict)
    """The facts that the first measured replicate recorded."""
    memory: Memory = field(default_factory=Memory)
    bound: str = ""
    """The status of the smallest batch that was too large, where the largest was searched for: `oom_host`, `budget`, …"""
    refused: int | None = None
    """The smallest batch that was too large."""
    environment: str = ""
    """The digest of that in which it was measured; empty for a cell without records."""
    estimates: dict[object, Estimate | None] = field(default_factory=dict, init=False, repr=False, compare=False)
    """What its quantities were found to be, each by itself: tables, pages and figures ask for the same ones."""

    @property
    def ok(self) -> bool:
        """Say whether every replicate that was run gave its samples."""
        return self.status == OK

    @cached_property
    def median(self) -> float | None:
        """Median of the replicate medians, seconds per call; None unless the cell is ok and was timed."""
        return statistics.median(self.medians.values()) if self.ok and self.medians else None

    @cached_property
    def times(self) -> Mapping[int, float]:
        """Seconds per sample of the batch by replicate number; of a cell that failed too, as far as they were taken."""
        return {replicate: median * self.per_sample for replicate, median in self.medians.items()}

    @cached_property
    def time(self) -> Estimate | None:
        """Seconds per sample of the batch: median of the replicate medians; None unless the cell is ok and was timed."""
        return by_factors(list(self.medians.values())).times(self.per_sample) if self.ok and self.medians else None

    @property
    def replicates(self) -> int:
        """Count the replicates that gave their samples."""
        return len(self.medians or next(iter(self.scores.values()), ()))

    @cached_property
    def B(self) -> int:
        """The batch that ran: the problem's, or the largest that was found to fit."""
        found = self.facts.get("B")
        return found if isinstance(found, int) else self.cell.problem.B

    @cached_property
    def per_sample(self) -> float:
        """The factor that turns a figure per call into one per sample of the batch: 1 / B."""
        return 1.0 / self.B

    @property
    def tokens(self) -> int:
        """Tokens that go into one call, or of decoding those that come out of it; padding is none."""
        if self.cell.workload in {Workload.DECODE, Workload.VERIFY, Workload.MODEL_DECODE}:
            return self.B * self.cell.new_tokens
        problem = self.cell.problem
        return sum(problem.model_copy(update={"B": self.B}).lengths) if problem.padding else self.B * problem.N

    def fact(self, name: str) -> str:
        """Return a recorded fact in words; nothing where there is none."""
        value = self.facts.get(name)
        return "" if value is None else str(value)


def summarize(cells: Iterable[Cell], records: Iterable[Record]) -> list[CellSummary]:
    """Return one summary per planned cell, in order, then those of cells that only records know. Checks are no cells of a run.

    Records are taken one by one and not kept: there may be more of them than fit into memory.
    """
    gathered = {cell.key: _Gathered(cell) for cell in cells}
    keys: dict[tuple[object, ...], str] = {}
    collects = gc.isenabled()
    # nothing of a record refers back to itself, and the collector would walk all that is kept again and again
    gc.disable()
    try:
        for record in records:
            if record.job.phase is not Pass.CHECK:
                key = _key(record.job.cell, keys)
                if key not in gathered:
                    gathered[key] = _Gathered(record.job.cell)
                gathered[key].add(record)
    finally:
        if collects:
            gc.enable()
    return [each.summary() for each in gathered.values()]


def _key(cell: Cell, known: dict[tuple[object, ...], str]) -> str:
    """Return the key of a cell, each made once: they cost more than reading a record."""
    # 1, 1.0 and True are one dictionary key, and three parameters
    params = tuple((name, type(value), value) for name, value in cell.params.items())
    # a tuple is hashed and compared sooner than a Noun
    fields = tuple({**vars(cell), "params": params, "problem": tuple(vars(cell.problem).values())}.values())
    if (key := known.get(fields)) is None:
        key = known[fields] = cell.key
    return key


@dataclass(slots=True)
class _Gathered:
    """The records of one cell, as far as they count."""

    cell: Cell
    main: dict[int, Digest] = field(default_factory=dict)
    memory: dict[int, Digest] = field(default_factory=dict)
    trials: dict[int, Status] = field(default_factory=dict)
    """The statuses of the batches that did not fit, where the largest was searched for."""
    environment: str = ""
    cut_off: tuple[str, str] | None = None
    """Status and reason, where the last batch that had fitted ran out of memory when it was measured."""

    def add(self, record: Record) -> None:
        job, failed = record.job, record.failed
        if record.environment != self.environment:
            if self.environment and not record.settles:
                return
            # begun anew on another device: nothing of two stands in one figure
            for known in (self.main, self.memory, self.trials):
                known.clear()
            self.environment, self.cut_off = record.environment, None
        if job.phase is Pass.FIT or record.too_large:
            if failed is None:
                # what failed by chance was tried again
                self.trials.pop(job.B or 1, None)
            elif failed.status is not Status.INTERRUPTED:
                self.trials[job.B or 1] = failed.status
            if failed and record.too_large:
                reason = f"B={job.B} fitted, and ran out of memory when it was measured; no smaller one has been measured"
                self.cut_off = failed.status.value, reason
        elif job.phase in {main_pass(self.cell), Pass.MEMORY}:
            is_main = job.phase is not Pass.MEMORY
            # the facts are those of the first replicate
            new = digest(record, facts=is_main and (job.replicate == 0 or not any(each.facts for each in self.main.values())))
            kept = self.main if is_main else self.memory
            if counts_over(new, kept.get(job.replicate)):
                kept[job.replicate] = new

    def summary(self) -> CellSummary:
        finals = dict(sorted(self.main.items()))
        status, reason = self.cut_off if self.cut_off and not finals else _status(finals)
        useful = {replicate: final for replicate, final in finals.items() if final.useful}
        scores = _by_name({replicate: final.values for replicate, final in useful.items()})
        return CellSummary(
            cell=self.cell,
            status=status,
            reason=reason,
            medians=scores.pop("time", {}),
            scores=scores,
            series=_by_name({replicate: final.series for replicate, final in useful.items()}),
            samples=sum(final.samples for final in useful.values()),
            outliers=sum(final.outliers for final in useful.values()),
            flags=tuple(dict.fromkeys(flag for final in useful.values() for flag in final.flags)),
            facts=next((final.facts for final in useful.values() if final.facts), {}),
            memory=memory_of(final for _, final in sorted(self.memory.items())),
            bound=self.trials[min(self.trials)].value if self.trials else "",
            refused=min(self.trials, default=None),
            environment=self.environment,
        )


def _by_name(found: Mapping[int, Mapping[str, _T]]) -> dict[str, dict[int, _T]]:
    """Turn what each replicate has by name into what each name has by replicate."""
    turned: dict[str, dict[int, _T]] = {}
    for replicate, values in found.items():
        for name, value in values.items():
            turned.setdefault(name, {})[replicate] = value
    return turned


def _status(finals: Mapping[int, Digest]) -> tuple[str, str]:
    """Return status and reason of the first replicate that failed; one interrupted beside a measured one was not run."""
    failures = [final.failed for final in finals.values() if final.failed is not None]
    grave = [failed for failed in failures if failed.status is not Status.INTERRUPTED]
    useless = [final.useless for final in finals.values() if final.useless]
    if grave:
        return grave[0].status.value, grave[0].reason
    if useless:
        return Status.ERROR.value, useless[0]
    if len(failures) < len(finals):
        return OK, ""
    return (failures[0].status.value, failures[0].reason) if failures else (NOT_RUN, "no record of this cell yet")


def memory_of(finals: Iterable[Digest]) -> Memory:
    """Return the median of each counter over the memory replicates; their first failure is the reason where there are none."""
    finals = list(finals)
    measured = [final for final in finals if final.failed is None]
    failures = [final.failed for final in finals if final.failed is not None]
    if not measured:
        return Memory(reason=f"{failures[0].status.value}: {failures[0].reason}") if failures else Memory()
    readings = _by_name(dict(enumerate(final.memory for final in measured)))
    flags = tuple(dict.fromkeys(flag for final in measured for flag in final.flags))
    return Memory({name: _median([*found.values()]) for name, found in readings.items()}, "", flags, len(measured))


def _median(counters: Sequence[Counter]) -> Counter:
    """Take the median over the readings of one source: of those read without reserve, else of whatever was read."""
    read = [c for c in counters if c.bytes is not None]
    if not read:
        return counters[0]
    first = next((c for c in read if c.reason is None), read[0])
    values = [c.bytes for c in read if c.source == first.source and c.bytes is not None]
    return first.model_copy(update={"bytes": round(statistics.median(values))})


@dataclass(frozen=True)
class Moment:
    """One evaluation: after so many updates, and after so many seconds of training (median of the seeds)."""

    update: float
    seconds: float
    middle: float
    low: float
    high: float


def learning_curve(summary: CellSummary, name: str = LOSSES) -> tuple[Moment, ...]:
    """Return the moments of a series by rising update; nothing unless the cell is ok and has it.

    Only seeds that were judged after the same updates as the first can be laid over each other; values that are no numbers
    are left out.
    """
    series = [summary.series.get(each, {}) for each in (_UPDATES, _SECONDS, name)]
    seeds = sorted(set.intersection(*map(set, series))) if summary.ok else []
    whole = [seed for seed in seeds if len({len(each[seed]) for each in series}) == 1]
    alike = [seed for seed in whole if series[0][seed] == series[0][whole[0]]]
    moments = []
    for i, update in enumerate(series[0][alike[0]] if alike else ()):
        seconds, values = ([each[seed][i] for seed in alike] for each in series[1:])
        if finite := [value for value in values if math.isfinite(value)]:
            moments.append(Moment(update, statistics.median(seconds), statistics.median(finite), min(finite), max(finite)))
    return tuple(moments)
