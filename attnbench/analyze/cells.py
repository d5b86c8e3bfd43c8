"""From records to one summary per cell."""

import gc
import statistics
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property

from attnbench.analyze.counters import Memory, memory_of
from attnbench.analyze.digest import Digest, digest
from attnbench.analyze.final import counts_over
from attnbench.analyze.statistics import Estimate, Interval, spread
from attnbench.schema.cell import Cell, Workload
from attnbench.schema.errand import Pass, main_pass
from attnbench.schema.noun import Scalar
from attnbench.schema.outcome import Status
from attnbench.schema.record import Record

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
    """Of fidelity, numerics and training: by metric and replicate number, the mean of the samples."""
    series: Mapping[str, Mapping[int, tuple[float, ...]]] = field(default_factory=dict)
    """By name and replicate number, what means something by its order: the curves of training, the pixels of its images."""
    samples: int = 0
    outliers: int = 0
    flags: tuple[str, ...] = ()
    facts: Mapping[str, Scalar | None] = field(default_factory=dict)
    """Of the first measured replicate."""
    memory: Memory = field(default_factory=Memory)
    bound: str = ""
    """How the smallest batch failed that was too large, where the largest was searched for: `oom_host`, `budget`, …"""
    refused: int | None = None
    """That batch: the largest that fits lies below it."""
    environments: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether every replicate that was run gave its samples."""
        return self.status == OK

    @cached_property
    def median(self) -> float | None:
        """Median of the replicate medians, seconds per call; None unless the cell is ok and was timed."""
        return statistics.median(self.medians.values()) if self.ok and self.medians else None

    @cached_property
    def interval(self) -> Interval | None:
        """Of the replicate medians; None unless the cell is ok and was timed."""
        return spread(tuple(self.medians.values())) if self.ok and self.medians else None

    @cached_property
    def times(self) -> Mapping[int, float]:
        """Seconds per sample of the batch by replicate number; of a cell that failed too, as far as they were taken."""
        return {replicate: median * self.per_sample for replicate, median in self.medians.items()}

    @cached_property
    def time(self) -> Estimate | None:
        """Seconds per sample of the batch: median of the replicate medians; None unless the cell is ok and was timed."""
        if self.median is None or self.interval is None:
            return None
        return Estimate(self.median, self.interval).times(self.per_sample)

    @property
    def replicates(self) -> int:
        """How many replicates gave their samples."""
        return len(self.medians or next(iter(self.scores.values()), ()))

    @cached_property
    def B(self) -> int:
        """The batch that ran: the problem's, or the largest that was found to fit."""
        found = self.facts.get("B")
        return found if isinstance(found, int) else self.cell.problem.B

    @cached_property
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


def summarize(cells: Iterable[Cell], records: Iterable[Record]) -> list[CellSummary]:
    """One summary per planned cell, in order; cells that only records know come last. Checks are not cells of a run.

    Records are taken one by one and not kept: there may be many more than would fit into memory.
    """
    return gather(cells, records).summaries


def gather(cells: Iterable[Cell], records: Iterable[Record]) -> "Gathering":
    """The same, on the way: a part of the records, to which later ones can be joined."""
    gathering = Gathering({cell.key: _Gathered(cell) for cell in cells})
    keys = _Keys()
    with _uncollected():
        for record in records:
            if record.job.phase is not Pass.CHECK:
                gathering.at(keys.of(record.job.cell), record.job.cell).add(record)
    return gathering


@dataclass(frozen=True)
class Gathering:
    """Records by cell, as far as they count."""

    cells: "dict[str, _Gathered]"

    def at(self, key: str, cell: Cell) -> "_Gathered":
        """What is known of a cell; nothing yet of one that nobody planned."""
        if key not in self.cells:
            self.cells[key] = _Gathered(cell)
        return self.cells[key]

    def join(self, later: "Gathering") -> None:
        """Take in records of the same run that were written after all of these."""
        for key, gathered in later.cells.items():
            self.at(key, gathered.cell).join(gathered)

    @property
    def summaries(self) -> list[CellSummary]:
        """Of all cells, in order."""
        return [gathered.summary() for gathered in self.cells.values()]


@contextmanager
def _uncollected() -> Iterator[None]:
    """Nothing of a record refers back to itself, and the collector would walk all that is kept again and again."""
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if before:
            gc.enable()


class _Keys:
    """Cell keys, each made once: they cost more than reading a record."""

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], str] = {}

    def of(self, cell: Cell) -> str:
        # 1, 1.0 and True are one dictionary key, and three parameters
        params = tuple((name, type(value), value) for name, value in cell.params.items())
        fields = (cell.method, cell.problem, cell.workload, params, cell.device, cell.inputs, cell.recording, cell.scale)
        whole = (*fields, cell.allocator, cell.matmul_precision, cell.clock, cell.batch, cell.training)
        if (key := self._known.get(whole)) is None:
            key = self._known[whole] = cell.key
        return key


@dataclass(slots=True)
class _Gathered:
    """The records of one cell, as far as they count."""

    cell: Cell
    main: dict[int, Digest] = field(default_factory=dict)
    memory: dict[int, Digest] = field(default_factory=dict)
    trials: dict[int, Status] = field(default_factory=dict)
    """Of the search for the largest batch: how each batch failed that did not fit."""
    environments: dict[str, None] = field(default_factory=dict)
    outgrown: Digest | None = None
    """The last batch that had fitted and ran out of memory when it was measured."""
    has_facts: bool = False

    def add(self, record: Record) -> None:
        phase, replicate = record.job.phase, record.job.replicate
        self.environments[record.environment] = None
        if phase is Pass.FIT or record.too_large:
            trial = digest(record, facts=False)
            self._add_trial(trial)
            self.outgrown = trial if record.too_large else self.outgrown
            return
        is_main = phase is main_pass(self.cell)
        # the facts are those of the first replicate
        new = digest(record, facts=is_main and (replicate == 0 or not self.has_facts))
        self.has_facts |= bool(new.facts)
        if is_main or phase is Pass.MEMORY:
            _count(self.main if is_main else self.memory, replicate, new)

    def join(self, later: "_Gathered") -> None:
        self.trials |= later.trials
        self.outgrown = later.outgrown or self.outgrown
        self.environments |= later.environments
        self.has_facts |= later.has_facts
        for ours, theirs in ((self.main, later.main), (self.memory, later.memory)):
            for replicate, new in theirs.items():
                _count(ours, replicate, new)

    def _add_trial(self, trial: Digest) -> None:
        if trial.failed is not None and not trial.interrupted:
            self.trials[trial.B or 1] = trial.failed.status

    def summary(self) -> CellSummary:
        finals = dict(sorted(self.main.items()))
        status, reason = _status(finals) if finals or self.outgrown is None else _cut_off(self.outgrown)
        useful = {replicate: final for replicate, final in finals.items() if final.useful}
        names = dict.fromkeys(name for final in useful.values() for name in final.values)
        whole = dict.fromkeys(name for final in useful.values() for name in final.series)
        return CellSummary(
            cell=self.cell,
            status=status,
            reason=reason,
            medians={i: final.values["time"] for i, final in useful.items() if "time" in final.values},
            scores={name: _by_replicate(useful, name) for name in names if name != "time"},
            series={name: {i: final.series[name] for i, final in useful.items() if name in final.series} for name in whole},
            samples=sum(final.samples for final in useful.values()),
            outliers=sum(final.outliers for final in useful.values()),
            flags=tuple(dict.fromkeys(flag for final in useful.values() for flag in final.flags)),
            facts=next((final.facts for final in useful.values() if final.facts), {}),
            memory=memory_of(final for _, final in sorted(self.memory.items())),
            bound=self.trials[min(self.trials)].value if self.trials else "",
            refused=min(self.trials, default=None),
            environments=tuple(self.environments),
        )


def _cut_off(outgrown: Digest) -> tuple[str, str]:
    """Of a search that did not come to its end."""
    assert outgrown.failed is not None
    reason = f"B={outgrown.B} fitted, and ran out of memory when it was measured; no smaller one has been measured"
    return outgrown.failed.status.value, reason


def _by_replicate(finals: Mapping[int, Digest], name: str) -> dict[int, float]:
    return {i: final.values[name] for i, final in finals.items() if name in final.values}


def _count(finals: dict[int, Digest], replicate: int, new: Digest) -> None:
    if counts_over(new, finals.get(replicate)):
        finals[replicate] = new


def _status(finals: Mapping[int, Digest]) -> tuple[str, str]:
    """Of the first replicate that failed; an interrupted replicate beside a measured one is one that was not run."""
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
