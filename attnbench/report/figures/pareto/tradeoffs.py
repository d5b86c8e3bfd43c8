"""What each method loses against what it costs: the figures of a Pareto panel, each pair of one method at one length."""

from dataclasses import dataclass
from functools import cached_property

from attnbench.analyze.pareto import Candidate
from attnbench.analyze.sections import Section
from attnbench.report.figures.pareto.costs import Cost, costs
from attnbench.report.figures.pareto.losses import Loss, losses
from attnbench.report.findings import Findings


@dataclass(frozen=True)
class Tradeoff:
    """One panel: a section that has a quality at one length, by one loss and one cost."""

    section: Section
    loss: Loss
    cost: Cost

    @cached_property
    def by_length(self) -> dict[int, list[Candidate]]:
        """All cells that have both figures; 0 has no place on a logarithmic axis, which that of costs always is."""
        found: dict[int, list[Candidate]] = {}
        for cell in self.section.summaries:
            loss, cost = self.loss.of(cell), self.cost.of(cell)
            if loss is not None and cost is not None and cost.value > 0 and (loss.value > 0 or not self.loss.logarithmic):
                found.setdefault(cell.cell.problem.N, []).append(Candidate(cell.cell.label, cost, loss))
        return found

    @property
    def N(self) -> int:
        """The longest of the lengths at which the most methods have both figures."""
        return max(self.by_length, key=lambda N: (len(self.by_length[N]), N))

    @property
    def candidates(self) -> list[Candidate]:
        """Those of this length."""
        return self.by_length[self.N]


def tradeoffs(findings: Findings) -> list[list[Tradeoff]]:
    """A row for each loss of each section that has a quality, a column for each cost; only such as have a point."""
    rows = [
        [Tradeoff(section, loss, cost) for cost in costs(findings, section)]
        for section in findings.sections
        for loss in losses(section)
    ]
    return [kept for row in rows if (kept := [each for each in row if each.by_length])]
