"""Records in a few words."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from attnbench.analyze.cells import CellSummary, summarize
from attnbench.analyze.sections import Section
from attnbench.schema.cell import Batch, Cell, Workload
from attnbench.schema.errand import Job, Pass
from attnbench.schema.history import Floats, Track
from attnbench.schema.outcome import Counter, Failed, Measured, Series, Status
from attnbench.schema.problem import Problem
from attnbench.schema.record import Record
from attnbench.schema.run import RunInfo

T = TypeVar("T")
InfoOf = Callable[..., RunInfo]


def known(value: T | None) -> T:
    """Return what must be there."""
    assert value is not None
    return value


def compared(section: Section, named: Sequence[str] = ()) -> Section:
    """Return a section whose methods are compared with the named ones, or with those that are called softmax."""
    exact = {s.cell.method for s in section.summaries if s.cell.method.startswith("softmax.")}
    return replace(section, named=tuple(named), exact=frozenset(exact))


def track_of(
    cell: Cell,
    numbers: Floats | Sequence[float],
    runs: Sequence[int] | None = None,
    counters: Sequence[int] = (),
    failure: tuple[str, str] = ("oom_host", "memory limit reached"),
    **at: str,
) -> Track:
    """A cell over the runs of a history; NaN is a failure, and infinity a run without a number; `at`: suite and machine."""
    values, count = np.array(numbers, dtype=float), len(numbers)
    return Track(
        **{"suite": "s", "machine": "m", **at},
        cell=cell,
        runs=np.arange(count) if runs is None else np.array(runs),
        values=np.where(np.isfinite(values), values, np.nan),
        spread=np.full(count, 0.012),
        counters=np.array(counters or [0] * count),
        failures=np.where(np.isnan(values), 0, -1),
        reasons={0: failure},
    )


@dataclass(frozen=True)
class Writer:
    """Writes records of cells as workers do."""

    def cell(self, method: str = "linear.full", N: int = 1024, device: str = "cpu", **problem: object) -> Cell:
        return Cell(method=method, problem=Problem(N=N, **problem), device=device)

    def largest(self, method: str = "linear.full", N: int = 1024, workload: Workload = Workload.DECODE) -> Cell:
        """A cell whose batch is searched for."""
        return Cell(method=method, problem=Problem(N=N, causal=True), workload=workload, batch=Batch.LARGEST)

    def trial(self, cell: Cell, B: int, status: Status | None = None) -> Record:
        """One step of the search."""
        outcome = Measured(facts={"B": B}) if status is None else Failed(status=status, reason="too large")
        return self.record(Job(cell=cell, phase=Pass.FIT, B=B), outcome)

    def timed(self, cell: Cell, values: Sequence[float], replicate: int = 0, flags: Sequence[str] = (), **job: Any) -> Record:
        series, facts = {"time": Series(unit="s", values=tuple(values))}, {"B": job["B"]} if job.get("B") else {}
        outcome = Measured(samples=series, flags=tuple(flags), facts=facts)
        return self.record(Job(cell=cell, replicate=replicate, **job), outcome)

    def weighed(self, cell: Cell, replicate: int = 0, **counters: Counter) -> Record:
        return self.record(Job(cell=cell, phase=Pass.MEMORY, replicate=replicate), Measured(memory=counters))

    def failed(self, cell: Cell, status: Status = Status.CRASHED, reason: str = "", replicate: int = 0, **job: Any) -> Record:
        return self.record(Job(cell=cell, replicate=replicate, **job), Failed(status=status, reason=reason))

    def record(self, job: Job, outcome: Measured | Failed) -> Record:
        return Record(job=job, outcome=outcome, environment="e", started="2026-01-02T03:04:05+00:00")

    def summary(self, cell: Cell, medians: Sequence[float] = (), *more: Record, B: int | None = None) -> CellSummary:
        """Of one cell whose replicates each have one sample."""
        records = [self.timed(cell, [value], replicate, B=B) for replicate, value in enumerate(medians)]
        (found,) = summarize([cell], [*records, *more])
        return found

    def of_size(self, cell: Cell, size: int | None, source: str = "VmHWM") -> CellSummary:
        """Of a cell that took a second and so many bytes."""
        return self.summary(cell, [1.0], self.weighed(cell, host_rss_peak=Counter(bytes=size, source=source)))


writer = Writer()
