"""What each method loses against what it costs: the figures of a Pareto panel, each pair of one method at one length."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from attnbench.analyze.cells import CellSummary
from attnbench.analyze.fidelity import score, share_of_dense
from attnbench.analyze.main_counter import STATE, MainCounter
from attnbench.analyze.pareto import Candidate
from attnbench.analyze.sections import Section
from attnbench.analyze.statistics import Interval
from attnbench.report.findings import Findings
from attnbench.report.per import per
from attnbench.report.ticks import Ticks, byte_ticks, factor_ticks, time_ticks
from attnbench.schema.cell import Workload
from attnbench.schema.outcome import MASS_RECALL, OUTPUT_ERROR
from attnbench.schema.problem import Problem

Figure = tuple[float, Interval | None]
"""A number and its interval."""


@dataclass(frozen=True)
class Loss:
    """Read off a cell of fidelity; 0 is exact."""

    name: str
    of: Callable[[CellSummary], Figure | None]


@dataclass(frozen=True)
class Cost:
    """Read off the cell of a method's fidelity, or off that of another workload on the same problem."""

    name: str
    of: Callable[[CellSummary], Figure | None]
    ticks: Callable[[float, float], Ticks]


@dataclass(frozen=True)
class Tradeoff:
    """One panel: a section of fidelity at one length, by one loss and one cost."""

    section: Section
    loss: Loss
    cost: Cost

    @cached_property
    def by_length(self) -> dict[int, list[Candidate]]:
        """All cells that have both figures; a cost of 0 has no place on a logarithmic axis."""
        found: dict[int, list[Candidate]] = {}
        for cell in self.section.summaries:
            loss, cost = self.loss.of(cell), self.cost.of(cell)
            if loss is not None and cost is not None and cost[0] > 0:
                found.setdefault(cell.cell.problem.N, []).append(Candidate(cell.cell.label, *cost, *loss))
        return found

    @property
    def N(self) -> int:
        """The longest of the lengths at which the most methods have both figures."""
        return max(self.by_length, key=lambda N: (len(self.by_length[N]), N))

    @property
    def candidates(self) -> list[Candidate]:
        """Those of this length."""
        return self.by_length[self.N]


LOSSES = (
    Loss("output error", lambda cell: _score(cell, OUTPUT_ERROR)),
    Loss("1 - mass recall", lambda cell: _missed(_score(cell, MASS_RECALL))),
)


def _score(cell: CellSummary, metric: str) -> Figure | None:
    found = score(cell, metric)
    return None if found is None else (found.value, found.interval)


def _missed(found: Figure | None) -> Figure | None:
    """Of a share, the rest."""
    value, interval = found or (0.0, None)
    if interval is None:
        return None
    return 1 - value, Interval(1 - interval.high, 1 - interval.low, interval.kind)


def tradeoffs(findings: Findings) -> list[list[Tradeoff]]:
    """A row for each section of fidelity and loss, a column for each cost; only such as have a point."""
    sections = [section for section in findings.sections if section.workload is Workload.FIDELITY]
    columns = costs(findings)
    rows = [[Tradeoff(section, loss, cost) for cost in columns] for section in sections for loss in LOSSES]
    return [kept for row in rows if (kept := [each for each in row if each.by_length])]


def costs(findings: Findings) -> list[Cost]:
    """Time and memory of each workload, and state, as far as the run has them; else the FLOPs of the definition."""
    cells = _Cells(findings.summaries)
    found = []
    for workload in cells.workloads:
        found += [_time(cells, workload)]
        found += [_bytes(cells, workload, findings.counter, f"memory {per(workload)}")] if findings.counter else []
    decoding = [workload for workload in cells.workloads if workload.decodes]
    found += [_bytes(cells, decoding[0], STATE, "state of one sequence")] if decoding else []
    with_points = [
        cost for cost in found if any(cost.of(s) for s in findings.summaries if s.cell.workload is Workload.FIDELITY)
    ]
    return with_points or [_flops(findings)]


class _Cells:
    """Cells by what they have in common with the same method's cells of other workloads."""

    def __init__(self, summaries: Sequence[CellSummary]) -> None:
        self._known = {(s.cell.workload, *_identity(s)): s for s in summaries}
        self.workloads = list(dict.fromkeys(s.cell.workload for s in summaries if s.ok and s.medians))

    def beside(self, cell: CellSummary, workload: Workload) -> CellSummary | None:
        found = self._known.get((workload, *_identity(cell)))
        return found if found is not None and found.ok else None


def _identity(summary: CellSummary) -> tuple[str, Problem, str]:
    return summary.cell.label, summary.cell.problem, summary.cell.device


def _time(cells: _Cells, workload: Workload) -> Cost:
    def of(cell: CellSummary) -> Figure | None:
        other = cells.beside(cell, workload)
        if other is None or other.median is None or other.interval is None:
            return None
        return other.median * other.per_sample, other.interval.times(other.per_sample)

    return Cost(f"time {per(workload)}, {workload.value}", of, time_ticks)


def _bytes(cells: _Cells, workload: Workload, counter: MainCounter, name: str) -> Cost:
    def of(cell: CellSummary) -> Figure | None:
        other = cells.beside(cell, workload)
        value = counter.per_sample(other) if other is not None else None
        return None if value is None else (value, None)

    return Cost(f"{name}, {workload.value}", of, byte_ticks)


def _flops(findings: Findings) -> Cost:
    def of(cell: CellSummary) -> Figure | None:
        share = share_of_dense(cell, findings.run)
        return None if share is None or not math.isfinite(share) else (share, None)

    return Cost("FLOPs of the definition over dense attention's", of, factor_ticks)
