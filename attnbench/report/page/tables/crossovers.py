"""From which length on methods win, section by section, by time."""

from attnbench.analyze.metric import TIME, metrics
from attnbench.analyze.sections import Section
from attnbench.analyze.versus import Versus, baseline
from attnbench.report.findings import Findings
from attnbench.report.questions.crossover.table import crossover_tables
from attnbench.report.text.table import Table


def crossover_of(findings: Findings, section: Section) -> Table | None:
    """Every method against the strongest exact one; None where there is none, or no other beside it, or nothing is timed."""
    time = metrics(section.summaries).get(TIME)
    over = baseline(section, findings.run.suite.report.baselines)
    if time is None or over is None:
        return None
    compared = [Versus(section, label, over, time) for label in section.series if label != over]
    return next(iter(crossover_tables(findings, compared)), None)
